/*
 * Model of what has a capacity above one, as src/engine/{control,finish,bury_entry}.hpp have it: the weight of an entry
 * and the capacity as amounts with the stamp of the operation that changed them last; merge, shrink, resize, join and
 * leave, and queueing first (an upgrade); letting in who fits then and taking out of the queue who never will; late and
 * repeated finishing, an owner that sets its weight anew with a plain store, a death and its burial. The queue, the
 * hand-off and the preparation are as in control.pml.
 *
 *   tests/model/run weights    what is worth checking, and the mutations that it must find
 *   by hand: as control.pml
 *
 * Each worker does what its list says, one after the other, with two entries: its hold, and a part (what it wants
 * besides, or its share of a quota). One that only changes the capacity (SET) or finishes (HELP) is an operator, or a
 * late finisher.
 *
 * Asserted: nobody is let in above the capacity that is in force then, and those who believe that they are inside never
 * have more than that; a hold gives back what it has, neither more nor less; when a word is changed, the capacity is
 * what the operations before made it; nobody queues for more than there is, is told so wrongly, or is taken out by
 * others unless it waited for more; at the end nothing is used, nobody waits, the entries are free, and the capacity is
 * what the members that are left brought (or the last resize). An end where somebody waits for ever is an error, also
 * while another one holds (AWAIT). What the code would call corrupt is an error here.
 *
 * Sequentially consistent. Each read of an amount is a step of its own; several reads of links are one, unless FINE is
 * defined. Not modelled: marks, leases and robbing (a dead one's hold is reclaimed at once, and nobody is told),
 * futexes (a waiter looks whenever it likes, at the capacity only if LOOKS), try_acquire, an amount's upper limit,
 * burial by several, other words (of a part that is used elsewhere only its fields change), and what control.pml leaves
 * out.
 *
 * Each BREAK_… takes one rule of the protocol away. What was seen stands in README.md beside this file.
 */
#ifndef N
#define N 2            /* workers; worker i owns entries i and N+i */
#endif
#ifndef CAPACITY
#define CAPACITY 2     /* at the start */
#endif
#ifndef QUOTA
#define QUOTA false    /* the capacity is what the members bring */
#endif
#ifndef FIRST
#define FIRST END      /* what worker 0 does, one after the other; at most six */
#endif
#ifndef SECOND
#define SECOND END     /* worker 1 */
#endif
#ifndef THIRD
#define THIRD END
#endif
#ifndef FOURTH
#define FOURTH END
#endif
#ifndef HAS
#define HAS(i) 0       /* what worker i holds at the start */
#endif
#ifndef WAITS
#define WAITS(i) 0     /* what it waits for at the start; its first GET is that */
#endif
#ifndef BRINGS
#define BRINGS(i) 0    /* what it has brought into the quota at the start */
#endif
#ifndef UNTIL
#define UNTIL(x) true  /* what AWAIT(x) waits for */
#endif
#ifndef AGAIN
#define AGAIN(i) 15    /* where the next owner of a dead one's entries begins in the list; 15: it does nothing */
#endif
#ifndef THREADS
#define THREADS 0      /* another thread of worker 0 uses its part elsewhere as soon as that is free */
#endif
#ifndef LOOKS
#define LOOKS false    /* a waiter sees by itself that it waits for more than there is */
#endif
#ifndef GIVEUP
#define GIVEUP(i) false  /* a waiter may cancel */
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef VICTIM
#define VICTIM(i) true   /* who may be killed */
#endif
#ifdef FINE
#define CUT } ; atomic {
#else
#define CUT ;
#endif

/* What a worker does. */
#define END 0
#define GET(w) (16+w)      /* takes w, waiting if need be */
#define MORE(w) (32+w)     /* as much besides, with the part */
#define UPGRADE(w) (48+w)  /* the same, before all others */
#define ADD 64             /* merge */
#define KEEP_ONLY(w) (80+w)  /* shrink */
#define LET_GO 96
#define ELSEWHERE 112      /* the part is used on another word */
#define SET(n) (128+n)     /* resize */
#define BRING(w) (144+w)   /* join */
#define TAKE_AWAY 160      /* leave */
#define HELP 176           /* finishes the word */
#define AWAIT(x) (192+x)
#define NTH(k, a, b, c, d, e, f, ...) (k==0->a:(k==1->b:(k==2->c:(k==3->d:(k==4->e:(k==5->f:END))))))
/* A list is as long as it is; NTH gives its k-th. */
#define STEPS(k, ...) NTH(k, __VA_ARGS__, END, END, END, END, END, END)
#define DO(i, k) (i==0->STEPS(k, FIRST):(i==1->STEPS(k, SECOND):(i==2->STEPS(k, THIRD):STEPS(k, FOURTH))))

#define NE (2*N)
#define NIL 15
#define NONE 0         /* Op */
#define ACQ 1
#define REL 2
#define HANDOFF 3
#define ENQ 4
#define GRANT 5
#define CANCEL 6
#define RECLAIM 7
#define KEEP 8
#define MERGE 10
#define SHRINK 11
#define RESIZE 12
#define JOIN 13
#define LEAVE 14
#define QFIRST 15

#define FREE 0         /* Phase */
#define PREP 1
#define WAITING 2
#define HELD 3
#define MEMBER 6

/* What a participant is doing. One loop serves all operations, so that finishing stands here once:
   load, finish, step; after a CAS that was won: finish the own operation, then go on. */
#define TAKE 1
#define DO_CANCEL 2
#define RELEASE 3
#define MOVE 4         /* merge() or shrink() */
#define CHANGE 5       /* resize(), join() or leave() */
#define SETTLE 6
#define BURY 7
#define FINISH 8
#define EVICT 9

typedef Word { byte seq; byte used; byte tail; byte last; byte op };
typedef Entry {
  byte ph; bit other; byte st;         /* status; other: of another word */
  byte next; byte nst;                 /* link */
  byte prev; byte pst;                 /* link */
  byte ho; bit hloss; bit hmoves; byte hst;  /* hand-off field */
  byte wt; byte wst;                   /* weight */
  byte beside; bit first
};
Word W;
Entry E[NE];
byte cap=CAPACITY; byte cst;           /* capacity */

chan kill=[0] of { byte };  /* the worker is killed now */
bit dead[N];           /* killed and not buried */
bit helping[N];        /* changes the capacity; its burial sees to the queue */
byte at[N];            /* how far it is in its list */
byte done;             /* workers that ended */
/* What the operations on the word decided, and what the participants believe, for the assertions. */
byte brought=CAPACITY; /* the capacity */
byte has[NE];          /* the weight of a hold */
bit unfit[NE];         /* has waited for more than there was */
byte most;             /* the capacity when somebody was let in last */
bit inside[NE];        /* its owner believes that it holds */
byte sum;              /* what those inside have */
bit merged;            /* worker 0's part became part of its hold */

#define LS(x) (x.seq)
#define SEQ_IS(x) (W.seq==x.seq)
#define CURRENT(x) SEQ_IS(x)
#ifdef BREAK_MOVED_CURRENT
#define MOVED_CURRENT(x) true
#else
#define MOVED_CURRENT(x) SEQ_IS(x)
#endif
#ifdef BREAK_CAPACITY_CURRENT
#define CAPACITY_CURRENT(x) true
#else
#define CAPACITY_CURRENT(x) SEQ_IS(x)
#endif
#ifdef BREAK_MOVED_STAMP
#define MOVED_BY(i, x) true
#else
#define MOVED_BY(i, x) (E[i].hst==LS(x))
#endif
#ifdef BREAK_AMOUNT
#define CHANGED(s, x) false
#else
#define CHANGED(s, x) (s==LS(x))
#endif
#define STATUS_IS(i, p, s) (E[i].ph==p && !E[i].other && E[i].st==s)
#define SET_STATUS(i, p, s) E[i].ph=p; E[i].other=0; E[i].st=s
#define MINE(p) (s_ph==p && !s_other)
#define STAMPED(s, x) (s==LS(x))
#ifdef BREAK_BESIDE
#define NEED(i) E[i].wt
#else
#define NEED(i) (E[i].wt+E[i].beside)
#endif
#define NEED_OF(i) (E[i].wt+E[i].beside)
#define LEAVES(i) if :: inside[i] -> inside[i]=0; sum=sum-has[i] :: else fi

inline load(x) { atomic { x.seq=W.seq; x.used=W.used; x.tail=W.tail; x.last=W.last; x.op=W.op } }
inline read_status(i) { s_ph=E[i].ph; s_other=E[i].other; s_st=E[i].st }
inline clear_word(x) { x.seq=0; x.used=0; x.tail=0; x.last=0; x.op=0 }
inline clear_fin() {
  s_ph=0; s_other=0; s_st=0; a_e=0; a_s=0; b_e=0; b_s=0; f_rel=NIL; f_gr=NIL; f_go=0; ahead=0; behind=0
}
inline clear_all() {
  clear_fin(); clear_word(c); clear_word(n);
  hd=0; cp=0; ok=0; res=0; tok=0; mode=0; after=0; won=0; loss=0; back=0; raw_p=0; raw_s=0; what=0; amount=0;
  ev=0; ev_next=0; ev_n=0; go=0; plan=0
}

/* CAS of the word. With a sequence of its own, equal sequence means equal word. What it decides: */
inline decided() {
  assert(n.seq==c.seq+1 && n.seq<100);
  assert(cap==brought);                        /* no operation follows an unfinished one */
  if
  :: n.op==ACQ -> has[n.last]=E[n.last].wt; assert(n.used<=brought); most=brought
  :: n.op==ENQ || n.op==QFIRST -> has[n.last]=E[n.last].wt; unfit[n.last]=0; assert(NEED_OF(n.last)<=brought)
  :: n.op==GRANT -> assert(n.used<=brought); most=brought
  :: n.op==REL || n.op==HANDOFF || n.op==RECLAIM ->
     assert(E[n.last].wt==has[n.last]);        /* a hold gives back what it has */
     assert(c.used>=has[n.last]);
     if :: n.op==RECLAIM -> LEAVES(n.last) :: else fi;
     has[n.last]=0;
     if :: hd!=NIL -> assert(n.used<=brought); most=brought :: else fi
  :: n.op==CANCEL ->
     assert((mode!=SETTLE && ev==0) || unfit[n.last]);  /* others take out only who waits for more than there is */
     has[n.last]=0
  :: n.op==MERGE ->
     assert(inside[i] && inside[n.last]); inside[n.last]=0; has[i]=has[i]+has[n.last]; has[n.last]=0;
     merged=(n.last==N)
  :: n.op==SHRINK -> sum=sum-(has[i]-amount); has[i]=amount
  :: n.op==RESIZE -> brought=n.last; see_unfit()
  :: n.op==JOIN -> has[n.last]=E[n.last].wt; brought=brought+has[n.last]
  :: n.op==LEAVE -> brought=brought-has[n.last]; has[n.last]=0; see_unfit()
  :: n.op==KEEP -> skip
  fi
}
#define SEE_UNFIT(i) if :: E[i].ph==WAITING && NEED_OF(i)>brought -> unfit[i]=1 :: else fi
inline see_unfit() {
  SEE_UNFIT(0); SEE_UNFIT(1); SEE_UNFIT(2); SEE_UNFIT(3)
#if N>2
  ; SEE_UNFIT(4); SEE_UNFIT(5)
#endif
#if N>3
  ; SEE_UNFIT(6); SEE_UNFIT(7)
#endif
}
inline cas_word() {
  atomic {
    if
    :: SEQ_IS(c) -> won=1; decided(); W.seq=n.seq; W.used=n.used; W.tail=n.tail; W.last=n.last; W.op=n.op
    :: else -> won=0
    fi
  }
}
inline cas_next(x_at, re, rs, val, x) {
  atomic {
    if :: !STAMPED(rs, x) && E[x_at].next==re && E[x_at].nst==rs -> E[x_at].next=val; E[x_at].nst=LS(x) :: else fi
  }
}
inline cas_prev(x_at, re, rs, val, x) {
  atomic {
    if :: !STAMPED(rs, x) && E[x_at].prev==re && E[x_at].pst==rs -> E[x_at].prev=val; E[x_at].pst=LS(x) :: else fi
  }
}
/* Finisher::set_amount, from what a_e and a_s say */
inline set_weight(x_at, val, x) {
  atomic {
    if
    :: !CHANGED(a_s, x) && E[x_at].wt==a_e && E[x_at].wst==a_s -> E[x_at].wt=val; E[x_at].wst=LS(x)
    :: else
    fi
  }
}
inline set_capacity(val, x) {
  atomic { if :: !CHANGED(a_s, x) && cap==a_e && cst==a_s -> cap=val; cst=LS(x) :: else fi }
}
inline cas_status(x_at, p, x) {
  atomic {
    if :: E[x_at].ph==s_ph && E[x_at].other==s_other && E[x_at].st==s_st -> SET_STATUS(x_at, p, x.seq) :: else fi
  }
}
inline fin_released(x) {
  do
  :: atomic { read_status(f_rel); f_go=(MINE(HELD) || (MINE(PREP) && s_st==x.seq-1)); if :: !f_go -> break :: else fi }
     atomic { f_go=CURRENT(x); if :: !f_go -> break :: else fi }
     atomic { if :: STATUS_IS(f_rel, s_ph, s_st) -> SET_STATUS(f_rel, FREE, x.seq); break :: else fi }
  od
}
inline fin_granted(x) {
  atomic { read_status(f_gr); f_go=MINE(WAITING) }
  if
  :: f_go ->
     atomic {
       if :: x.tail!=NIL -> a_e=E[x.tail].next; a_s=E[x.tail].nst :: else fi
       CUT b_e=E[f_gr].next
     }
     atomic { f_go=CURRENT(x) }
     if
     :: f_go ->
        if :: x.tail!=NIL -> cas_next(x.tail, a_e, a_s, b_e, x) :: else fi;
        cas_status(f_gr, HELD, x)
     :: else
     fi
  :: else
  fi
}

/* Finisher::finish */
inline fin(x) {
  if
  :: x.op==NONE || x.op==KEEP -> skip
  :: x.op==ACQ ->
     atomic { read_status(x.last); f_go=(MINE(PREP) && s_st==x.seq) }
     if
     :: f_go -> atomic { f_go=CURRENT(x) }
        if :: f_go -> cas_status(x.last, HELD, x) :: else fi
     :: else
     fi
  :: x.op==ENQ ->
     atomic { read_status(x.last); f_go=(MINE(PREP) && s_st==x.seq); CUT ahead=E[x.last].prev }
     if
     :: f_go ->
        if :: ahead!=NIL -> atomic { a_e=E[ahead].next; a_s=E[ahead].nst } :: else fi;
        atomic { f_go=CURRENT(x) }
        if
        :: f_go ->
           if :: ahead!=NIL -> cas_next(ahead, a_e, a_s, x.last, x) :: else fi;
           cas_status(x.last, WAITING, x)
        :: else
        fi
     :: else
     fi
  :: x.op==QFIRST ->
     atomic { behind=E[x.last].next; CUT read_status(x.last); f_go=(MINE(PREP) && s_st==x.seq) }
     if
     :: f_go ->
        atomic {
          assert(x.tail!=NIL && behind!=NIL);                             /* corrupt */
          a_e=E[x.tail].next; a_s=E[x.tail].nst; CUT b_e=E[behind].prev; b_s=E[behind].pst
        }
        atomic { f_go=CURRENT(x) }
        if
        :: f_go ->
           cas_next(x.tail, a_e, a_s, x.last, x);
           cas_prev(behind, b_e, b_s, x.last, x);
           cas_status(x.last, WAITING, x)
        :: else
        fi
     :: else
     fi
  :: x.op==REL || x.op==HANDOFF || x.op==RECLAIM || x.op==GRANT ->
     atomic {
       f_rel=x.last;
       if
       :: x.op==REL -> skip
       :: x.op==GRANT -> f_rel=NIL; f_gr=x.last
       :: else ->
          if
          :: E[x.last].hst==LS(x) ->
             f_gr=E[x.last].ho;
             assert((x.op==RECLAIM)==E[x.last].hloss && !E[x.last].hmoves)  /* agreed on what happened */
          :: else -> f_rel=NIL                              /* its owner went on, so it was finished */
          fi
       fi
     }
     if :: f_gr!=NIL -> fin_granted(x) :: else fi
  :: x.op==CANCEL ->
     atomic { read_status(x.last); f_go=MINE(WAITING) }
     if
     :: f_go ->
        atomic { behind=E[x.last].next; CUT ahead=E[x.last].prev }
        if
        :: x.tail!=NIL ->
           atomic { a_e=E[x.tail].next; a_s=E[x.tail].nst }
           if
           :: a_e==x.last || STAMPED(a_s, x) ->
              atomic { f_go=CURRENT(x) }
              if :: f_go -> cas_next(x.tail, a_e, a_s, behind, x) :: else fi
           :: else ->
              if
              :: ahead!=NIL ->
                 atomic { a_e=E[ahead].next; a_s=E[ahead].nst; CUT b_e=E[behind].prev; b_s=E[behind].pst }
                 atomic { f_go=CURRENT(x) }
                 if
                 :: f_go ->
                    if :: a_e==x.last -> cas_next(ahead, a_e, a_s, behind, x) :: else fi;
                    if :: b_e==x.last -> cas_prev(behind, b_e, b_s, ahead, x) :: else fi
                 :: else
                 fi
              :: else -> atomic { assert(!SEQ_IS(x)); f_go=0 }    /* corrupt */
              fi
           fi
        :: else
        fi;
        if :: f_go -> atomic { f_go=CURRENT(x) } :: else fi;
        if :: f_go -> cas_status(x.last, FREE, x) :: else fi
     :: else
     fi
  :: x.op==MERGE || x.op==SHRINK ->
     atomic { f_go=MOVED_BY(x.last, x); ahead=E[x.last].ho; behind=(x.op==MERGE -> ahead : x.last) }
     if
     :: f_go && behind>=NE -> assert(!SEQ_IS(x))                         /* corrupt */
     :: f_go && behind<NE ->
        atomic { a_e=E[behind].wt; a_s=E[behind].wst }
        b_e=E[x.last].wt;
        atomic { f_go=MOVED_CURRENT(x) }
        if
        :: f_go ->
#ifdef BREAK_PART_LAST
           if :: x.op==MERGE -> f_rel=x.last; fin_released(x); f_rel=NIL :: else fi;
#endif
           if
           :: x.op==MERGE -> set_weight(behind, a_e+b_e, x); f_rel=x.last
           :: else -> set_weight(behind, ahead, x)
           fi
        :: else
        fi
     :: else
     fi
  :: x.op==RESIZE ->
     atomic { a_e=cap; a_s=cst }
     atomic { f_go=CAPACITY_CURRENT(x) }
     if :: f_go -> set_capacity(x.last, x) :: else fi
  :: x.op==JOIN ->
     atomic { a_e=cap; a_s=cst }
     b_e=E[x.last].wt;
     atomic { read_status(x.last); f_go=(MINE(PREP) && s_st==x.seq) }
     if :: f_go -> atomic { f_go=CAPACITY_CURRENT(x) } :: else fi;
     if
     :: f_go ->
#ifdef BREAK_MEMBER_LAST
        cas_status(x.last, MEMBER, x);
#endif
        set_capacity(a_e+b_e, x);
        cas_status(x.last, MEMBER, x)
     :: else
     fi
  :: x.op==LEAVE ->
     atomic { a_e=cap; a_s=cst }
     b_e=E[x.last].wt;
     atomic { read_status(x.last); f_go=MINE(MEMBER) }
     if :: f_go -> atomic { f_go=CAPACITY_CURRENT(x) } :: else fi;
     if
     :: f_go ->
#ifdef BREAK_LEFT_LAST
        cas_status(x.last, FREE, x);
#endif
        atomic { ahead=(a_e>b_e -> a_e-b_e : 0) }
        set_capacity(ahead, x);
        cas_status(x.last, FREE, x)
     :: else
     fi
  fi;
  if :: f_rel!=NIL -> fin_released(x) :: else fi;
  atomic { clear_fin() }
}

inline head_of() {
  atomic {
    if :: c.tail==NIL -> hd=NIL :: else -> hd=E[c.tail].next fi;
    CUT
    if :: hd!=NIL && (E[hd].ph!=WAITING || E[hd].other) -> hd=NIL :: else fi
  }
}
#define FITS(used_, weight_) (used_+weight_<=cp)

#ifdef BREAK_FINISH_MOVE
#define NO_FINISH_MOVE (mode==MOVE)
#else
#define NO_FINISH_MOVE false
#endif
#ifdef BREAK_FINISH_CHANGE
#define NO_FINISH_CHANGE (mode==CHANGE)
#else
#define NO_FINISH_CHANGE false
#endif
#define UNTOUCHED (c.seq==tok && c.op==ACQ)
#define WITHOUT_FINISHING (!won && ((mode==TAKE && c.op==REL && c.last==i) || (mode==RELEASE && UNTOUCHED) || \
  NO_FINISH_MOVE || NO_FINISH_CHANGE))
#ifdef BREAK_EVICT
#define THEN_EVICT mode=0
#else
#define THEN_EVICT mode=EVICT; ev=1; i=NIL
#endif
#ifdef BREAK_SETTLE_SHRINK
#define THEN_SETTLE mode=0
#else
#define THEN_SETTLE mode=SETTLE; after=0
#endif
#ifdef BREAK_SETTLE_EVICTS
#define NEVER(i) false
#else
#define NEVER(i) (NEED(i)>cp)
#endif
#ifdef BREAK_FIRST
#define HEAD_IS_FIRST false
#else
#define HEAD_IS_FIRST (E[i].first && hd!=NIL && E[hd%NE].first)
#endif
/* evict() judges once more at the word at which it takes somebody out. */
#ifdef BREAK_EVICT_JUDGES
#define STILL_TOO_MUCH true
#else
#define STILL_TOO_MUCH (ev==0 || NEED(i)>cap)
#endif
#ifdef BREAK_BURIAL_EVICTS
#define AFTER_BURIAL SETTLE
#else
#define AFTER_BURIAL (QUOTA -> EVICT : SETTLE)
#endif

#define MOVES(x) (x.op==MERGE || x.op==SHRINK)
#define SET_N(used_, tail_, last_, op_) n.seq=c.seq+1; n.used=used_; n.tail=tail_; n.last=last_; n.op=op_

/* give_back(), up to its CAS. */
inline give_back() {
  head_of();
  atomic { cp=cap }
  atomic {
    SET_N((c.used>=E[i].wt -> c.used-E[i].wt : 0), c.tail, i, (loss -> RECLAIM : REL));
    if
    :: hd!=NIL && FITS(n.used, E[hd%NE].wt) ->
       n.used=n.used+E[hd%NE].wt;
       if :: hd==c.tail -> n.tail=NIL :: else fi;
       if :: n.op==REL -> n.op=HANDOFF :: else fi
    :: else -> hd=NIL
    fi;
    go=(n.op==REL -> 1 : 2); plan=hd
  }
}
/* prepare_handoff() for the operation n. go: its CAS may follow. */
inline prepare_handoff() {
  atomic { a_e=E[n.last].ho; a_s=E[n.last].hst; b_e=E[n.last].hloss; b_s=E[n.last].hmoves }
  if
  :: a_s==LS(n) ->
#ifndef BREAK_INTENTS
     /* Another intent may become true at this very sequence: it is used up. */
     atomic { if :: b_e!=loss || b_s!=MOVES(n) -> SET_N(c.used, c.tail, n.last, KEEP) :: else fi }
#else
     skip
#endif
  :: else ->
     atomic { if :: !SEQ_IS(c) -> go=0 :: else fi }
     atomic {
       if
       :: go!=0 && E[n.last].ho==a_e && E[n.last].hst==a_s && E[n.last].hloss==b_e && E[n.last].hmoves==b_s ->
          E[n.last].ho=plan; E[n.last].hst=LS(n); E[n.last].hloss=loss; E[n.last].hmoves=MOVES(n)
       :: else -> go=0
       fi
     }
  fi;
  atomic { a_e=0; a_s=0; b_e=0; b_s=0 }
}

/* evict(), until somebody is to be taken out (DO_CANCEL), or the end (SETTLE). i: who is looked at, NIL: the head. */
inline walk() {
  do
  :: ev==2 -> atomic {                      /* done with one */
       ev=1; i=ev_next; ev_next=0;
       if :: i==NIL -> ev=0; ev_n=0; mode=SETTLE; after=0; break :: else fi
     }
  :: ev==1 && i==NIL ->
     atomic {
       if :: W.tail!=NIL -> i=E[W.tail].next :: else fi;
       CUT
       if :: i!=NIL && (E[i].ph!=WAITING || E[i].other) -> i=NIL :: else fi;
       if :: i==NIL -> ev=0; ev_n=0; mode=SETTLE; after=0; break :: else fi
     }
  :: ev==1 && i!=NIL ->
     atomic {
       if
       :: ev_n==2*NE -> ev=0; ev_n=0; mode=SETTLE; after=0; break
       :: else -> ev_n++
       fi;
       if
       :: E[i].ph!=WAITING || E[i].other -> i=NIL
       :: else -> ev_next=E[i].next; ev=2
       fi
     }
     if
     :: ev==2 ->
        atomic { if :: W.tail==i -> ev_next=NIL :: else fi }
        atomic { if :: NEED(i)>cap -> mode=DO_CANCEL; break :: else fi }
     :: else
     fi
  od
}

inline machine() {
  do
  :: mode==0 -> break
  :: else ->
     if
     :: mode==BURY && !won ->
        atomic {
          raw_p=E[i].ph; raw_s=E[i].st;
          if
          :: E[i].other -> E[i].ph=FREE; mode=0                            /* the other word's burial */
          :: !E[i].other && raw_p==FREE && raw_s==0 -> mode=0
          :: !E[i].other && raw_p==FREE && raw_s!=0 -> mode=AFTER_BURIAL; after=0;
             if :: mode==EVICT -> ev=1; i=NIL :: else fi
          :: else
          fi
        }
        if :: mode==0 -> break :: else fi
     :: else
     fi;
     if :: mode==EVICT -> walk() :: else fi;
     if :: won -> atomic { c.seq=n.seq; c.used=n.used; c.tail=n.tail; c.last=n.last; c.op=n.op } :: else -> load(c) fi;
     if :: WITHOUT_FINISHING -> skip :: else -> fin(c) fi;
     if
     :: won -> atomic {                            /* the own operation is finished */
          won=0;
          if
          :: mode==TAKE -> res=2; mode=0
          :: mode==DO_CANCEL ->
             if :: ev!=0 -> after=EVICT :: else -> res=1; after=0 fi;
             mode=SETTLE
          :: mode==RELEASE && c.op!=KEEP ->
             res=1; mode=0; if :: hd!=NIL -> mode=SETTLE; after=0 :: else fi
          :: mode==MOVE && c.op!=KEEP ->
             res=1; if :: what==SHRINK -> THEN_SETTLE :: else -> mode=0 fi
          :: mode==CHANGE -> res=1; THEN_EVICT
          :: else                                                       /* again */
          fi
        }
     :: else ->
        if
        :: mode==FINISH -> mode=0
        :: mode==SETTLE ->
           if
           :: c.tail==NIL -> atomic { mode=after; after=0 }
           :: else ->
              head_of();
              atomic { cp=cap }
              if
              :: hd!=NIL && NEVER(hd%NE) ->
                 atomic { SET_N(c.used, (hd==c.tail -> NIL : c.tail), hd, CANCEL); go=1 }
              :: else ->
                 if
                 :: hd==NIL || !FITS(c.used, E[hd%NE].wt) ->
                    atomic { if :: SEQ_IS(c) -> mode=after; after=0 :: else fi }
                 :: else ->
                    atomic { SET_N(c.used+E[hd%NE].wt, (hd==c.tail -> NIL : c.tail), hd, GRANT); go=1 }
                 fi
              fi
           fi
        :: mode==TAKE ->
           atomic { cp=cap }
           if
           :: (c.tail==NIL || E[i].first) && FITS(c.used, E[i].wt) ->
              atomic { SET_STATUS(i, PREP, c.seq+1); SET_N(c.used+E[i].wt, c.tail, i, ACQ); go=1 }
           :: else ->
              head_of();
              if
              :: hd!=NIL && FITS(c.used, E[hd%NE].wt) -> mode=SETTLE; after=TAKE
              :: else ->
                 if
                 :: NEED(i)>cp || HEAD_IS_FIRST ->
                    atomic {
                      if
                      :: SEQ_IS(c) ->
                         SET_STATUS(i, FREE, c.seq); res=(NEED(i)>cp -> 3 : 4); mode=0;
                         assert(res==4 || NEED_OF(i)>brought)
                      :: else
                      fi
                    }
                 :: else ->
                    if
                    :: c.tail!=NIL && hd==NIL -> atomic { assert(!SEQ_IS(c)) }  /* corrupt */
                    :: else ->
                       atomic {
                         E[i].prev=c.tail; E[i].pst=c.seq+1;
                         CUT E[i].next=(c.tail==NIL -> i : hd); E[i].nst=c.seq+1;
                         CUT SET_STATUS(i, PREP, c.seq+1);
                         if
                         :: E[i].first && c.tail!=NIL -> SET_N(c.used, c.tail, i, QFIRST)
                         :: else -> SET_N(c.used, i, i, ENQ)
                         fi;
                         go=1
                       }
                    fi
                 fi
              fi
           fi
        :: mode==MOVE ->
           atomic {
             if
             :: what==MERGE -> SET_N(c.used, c.tail, N+i, MERGE)
             :: else -> SET_N(c.used-(E[i].wt-amount), c.tail, i, SHRINK)
             fi;
             plan=amount; go=2
           }
        :: mode==CHANGE ->
           atomic {
             if
             :: what==RESIZE -> SET_N(c.used, c.tail, amount, RESIZE)
             :: what==JOIN -> SET_STATUS(i, PREP, c.seq+1); SET_N(c.used, c.tail, i, JOIN)
             :: what==LEAVE -> assert(E[i].ph==MEMBER); SET_N(c.used, c.tail, i, LEAVE)
             fi;
             go=1
           }
        :: mode==RELEASE ->
           if
           :: UNTOUCHED -> skip
           :: else -> atomic { assert(!E[i].other && E[i].st==tok && (E[i].ph==HELD || E[i].ph==PREP)) }
           fi;
           back=1
        :: mode==DO_CANCEL || mode==BURY ->
           atomic { read_status(i); CUT hd=E[i].next; CUT cp=E[i].prev }
           atomic { ok=(mode==DO_CANCEL || STATUS_IS(i, raw_p, raw_s)); CUT ok=ok && SEQ_IS(c) }
           if
           :: !ok -> skip
           :: ok && MINE(WAITING) ->
              assert(c.tail!=NIL && hd!=NIL && (c.tail!=i || hd==i || cp!=NIL));   /* corrupt */
              atomic {
                if
                :: STILL_TOO_MUCH -> SET_N(c.used, (c.tail!=i -> c.tail : (hd==i -> NIL : cp)), i, CANCEL); go=1
                :: else -> mode=EVICT
                fi
              }
           :: ok && mode==DO_CANCEL && !MINE(WAITING) ->
              atomic { if :: ev!=0 -> mode=EVICT :: else -> res=(MINE(HELD) -> 2 : 0); mode=0 fi }
           :: ok && mode==BURY && MINE(HELD) -> atomic { loss=1; back=1 }
           :: ok && mode==BURY && MINE(MEMBER) -> atomic { SET_N(c.used, c.tail, i, LEAVE); go=1 }
           :: ok && mode==BURY && MINE(PREP) ->
              if
              :: raw_s==c.seq+1 -> atomic { SET_N(c.used, c.tail, i, KEEP); go=1 }
              :: else -> atomic { if :: STATUS_IS(i, PREP, raw_s) -> E[i].ph=FREE :: else fi }
              fi
           :: else
           fi;
           atomic { s_ph=0; s_other=0; s_st=0 }
        :: mode==EVICT -> skip
        fi;
        if :: back -> back=0; give_back() :: else fi;
        if :: go==2 -> prepare_handoff() :: else fi;
        if
        :: go!=0 ->
           cas_word();
           /* An acquire and a plain release are left unfinished (F4). */
           atomic { if :: won && (n.op==ACQ || n.op==REL) -> won=0; res=1; mode=0 :: else fi; go=0; plan=0 }
        :: else
        fi
     fi
  od;
  atomic { clear_word(c); clear_word(n); hd=0; cp=0; ok=0; after=0; loss=0; raw_p=0; raw_s=0; ev=0; ev_next=0; ev_n=0 }
}

#define ENTER inside[i]=1; sum=sum+has[i]; assert(sum<=most)
#define LOCALS Word c; Word n; bit ok; byte res; byte tok; byte hd; byte cp; byte i; \
  byte s_ph; bit s_other; byte s_st; byte a_e; byte a_s; byte b_e; byte b_s; byte f_rel=NIL; byte f_gr=NIL; \
  bit f_go; byte ahead; byte behind; byte what; byte amount; byte ev; byte ev_next; byte ev_n; bit back; \
  byte go; byte plan; byte mode; byte after; bit won; bit loss; byte raw_p; byte raw_s

/* The part on another word, where nothing goes wrong. */
inline use_elsewhere(j) {
  E[j].wt=3;
  atomic { E[j].ph=PREP; E[j].other=1; E[j].st=90 }
  atomic { E[j].ho=(N>1 -> 1 : 0); E[j].hloss=0; E[j].hmoves=0; E[j].hst=200 }
  atomic { E[j].ph=FREE; E[j].st=91 }
}

#define NEXT at[me]=at[me]+1; step=0
#define WHAT (DO(me, at[me])/16)
#define AMOUNT (DO(me, at[me])%16)
#define DEAD(x) (x<N && dead[x%N])
#define BURIER N
/* A worker, or the burier, so that the machine stands here once. */
proctype Process(byte me) {
  LOCALS; byte who; byte step;
  if
  :: me==BURIER -> step=10
  :: me!=BURIER && WAITS(me)>0 -> i=me; step=3
  :: else
  fi;
again:
  {
    do
    :: step==0 ->
       atomic {
         amount=AMOUNT;
         if
         :: WHAT==0 -> done++; goto ended
         :: WHAT==1 -> i=me; E[i].beside=0; E[i].first=0; step=1
         :: WHAT==2 || WHAT==3 ->
            if :: inside[me] -> i=N+me; E[i].beside=has[me]; E[i].first=(WHAT==3); step=1 :: else -> NEXT fi
         :: WHAT==4 ->
            if :: inside[me] && inside[N+me] -> i=me; what=MERGE; amount=me; mode=MOVE; step=2 :: else -> NEXT fi
         :: WHAT==5 -> if :: inside[me] -> i=me; what=SHRINK; mode=MOVE; step=2 :: else -> NEXT fi
         :: WHAT==6 -> if :: inside[me] -> i=me; tok=E[i].st; LEAVES(i); mode=RELEASE; step=2 :: else -> NEXT fi
         :: WHAT==7 -> step=7
         :: WHAT==8 -> helping[me]=1; what=RESIZE; mode=CHANGE; step=2
         :: WHAT==9 -> i=N+me; E[i].beside=0; what=JOIN; step=1
         :: WHAT==10 -> i=N+me; what=LEAVE; mode=CHANGE; step=2
         :: WHAT==11 -> mode=FINISH; step=2
         :: WHAT==12 -> step=8
         fi
       }
    :: step==1 ->               /* the weight anew: a plain store */
#ifdef BREAK_KEEPS_STAMP
       a_s=0;
#else
       a_s=E[i].wst;
#endif
       atomic { E[i].wt=amount; E[i].wst=a_s; a_s=0; mode=(WHAT==9 -> CHANGE : TAKE); step=2 }
    :: mode!=0 ->
       machine();
       if
       :: step==2 -> atomic {
            i=(WHAT==2 || WHAT==3 || WHAT==9 || WHAT==10 -> N+me : me);
            if
            :: WHAT==1 || WHAT==2 || WHAT==3 ->
               if
               :: res==1 -> ENTER; NEXT
               :: res==2 -> step=3
               :: else -> NEXT                                  /* impossible, or a deadlock */
               fi
            :: else -> helping[me]=0; NEXT
            fi;
            res=0; tok=0; what=0; amount=0
          }
       :: step==4 -> atomic { ENTER; NEXT }
       :: step==5 -> atomic { if :: res==2 -> ENTER :: else fi; res=0; NEXT }
       :: step==11 -> atomic { i=N+who; mode=BURY; step=12 }
       :: step==12 -> atomic {
            step=13;
#ifndef BREAK_HELPING
            if :: helping[who] -> mode=EVICT; ev=1; i=NIL :: else fi
#endif
          }
       :: else
       fi
    :: step==3 && mode==0 ->
       if
       :: atomic { E[i].ph==HELD -> mode=SETTLE; after=0; step=4 }
       :: atomic { E[i].ph==FREE -> NEXT }                      /* taken out */
       :: atomic { LOOKS && E[i].ph==WAITING && NEED(i)>cap -> mode=DO_CANCEL; step=5 }
       :: atomic { GIVEUP(i) -> mode=DO_CANCEL; step=5 }
       fi
    :: step==7 -> use_elsewhere(N+me); atomic { NEXT }
    :: step==8 -> atomic { UNTIL(AMOUNT) -> NEXT }
    :: step==10 ->
       atomic {
         if
         :: done==N -> goto ended
         :: DEAD(0) -> who=0
         :: DEAD(1) -> who=1
         :: DEAD(2) -> who=2
         :: DEAD(3) -> who=3
         fi;
         i=who; mode=BURY; step=11
       }
    :: step==13 && mode==0 -> atomic { dead[who]=0; helping[who]=0; clear_all(); i=0; who=0; step=10 }
    od
  } unless {
    atomic {
      kill?eval((me<N && VICTIM(me) -> me : NIL)) -> dead[me]=1; clear_all(); i=0; step=0; at[me]=AGAIN(me)
    }
  };
  !dead[me] -> goto again;     /* the entries belong to a new session now */
ended:
  skip
}

proctype Thread() { merged && E[N].ph==FREE; use_elsewhere(N) }

proctype Killer() {
  if
  :: kill!0
  :: kill!1
  :: kill!2
  :: kill!3
  :: skip              /* nobody; or else an end where all wait would be none */
  fi
}

init {
  byte i; byte members;
  atomic {
    W.seq=1; W.tail=NIL; W.last=NIL;
    for (i : 0 .. NE-1) { E[i].next=NIL; E[i].prev=NIL; E[i].ho=NIL }
    for (i : 0 .. N-1) {
      has[i]=HAS(i); E[i].wt=has[i]; has[N+i]=BRINGS(i); E[N+i].wt=has[N+i];
      if
      :: has[i]>0 -> SET_STATUS(i, HELD, 1); inside[i]=1; sum=sum+has[i]; W.used=sum
      :: else -> has[i]=WAITS(i); E[i].wt=has[i]
      fi;
      if
      :: has[i]>0 && !inside[i] ->
         SET_STATUS(i, WAITING, 1); E[i].prev=W.tail;
         if :: W.tail==NIL -> E[i].next=i :: else -> E[i].next=E[W.tail%NE].next; E[W.tail%NE].next=i fi;
         W.tail=i
      :: else
      fi;
      if
      :: has[N+i]>0 -> SET_STATUS(N+i, MEMBER, 1); cap=cap+has[N+i]
      :: else
      fi
    }
    brought=cap; most=cap;
    /* Who begins last ends first: so that an end is no state of its own. */
    i=0; do :: i<DEATHS -> i++; run Killer() :: else -> break od;
    if :: DEATHS>0 -> run Process(BURIER) :: else fi;
    for (i : 0 .. N-1) { run Process(i) }
    i=0;
    if :: THREADS -> run Thread() :: else fi
  }
  atomic { _nr_pr==1 -> skip }
  /* Quiescence: the word is finished by hand where only a plain release is outstanding (F4). */
  atomic {
    assert(W.used==0 && W.tail==NIL && sum==0);
    if :: W.op==REL && !E[W.last].other -> E[W.last].ph=FREE :: else fi;
    for (i : 0 .. NE-1) {
      assert((E[i].ph==FREE || (QUOTA && E[i].ph==MEMBER)) && !inside[i]);
      if :: E[i].ph==MEMBER -> members=members+E[i].wt :: else fi
    }
    assert(cap==brought && (!QUOTA || cap==members))
  }
}
