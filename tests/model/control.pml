/*
 * Model of the transition protocol as src/engine/{control,finish,bury_entry}.hpp have it: the circular queue, stamped
 * status, links and hand-off field, hand-off in one CAS, reclaim with mark and judgement, marks that stay as long as
 * the hold, owners that leave their own acquire and plain release unfinished (F4), preparation with plain stores (F5),
 * burial, and an entry that goes on to a new session (the worker goes on after it was buried).
 *
 *   tests/model/run            what is worth checking, and the mutations that it must find
 *   by hand: a file of #define lines and #include "control.pml"; then
 *     spin -a file.pml && cc -O0 -DSAFETY -DCOLLAPSE -DVECTORSZ=2048 -o pan pan.c && ./pan -m200000
 *     spin -t -p file.pml      the trace of an error
 *
 * Asserted: the weights of those who believe that they are inside fit into the capacity; tokens grow (capacity 1); who
 * was told "refreshed" keeps its hold until its lease runs out again; who was told "released" is not told later that it
 * was robbed; nobody is robbed or thrown out of the queue for the death of another; at the end the words are idle, the
 * entries free, and nobody waits. An entry or link that the code would call corrupt is an error here.
 *
 * Sequentially consistent. Between the status and the check that the word is current several reads are one step, unless
 * FINE is defined. Not modelled: futexes (a waiter looks whenever it likes) and so lost or repeated calls, holder hint,
 * notices, names and generations, try_acquire, close, changes of the capacity, detached entries (a heartbeat of
 * somebody else's), operators who rob (forced), sequence limits, stamps that wrap. retake() is taken for take().
 *
 * Each BREAK_… takes one rule of the protocol away. What was seen stands in README.md beside this file.
 */
#ifndef N
#define N 2            /* workers; worker i owns entry i */
#endif
#ifndef WORDS
#define WORDS 1
#endif
#ifndef CYCLES
#define CYCLES 1       /* acquisitions a worker tries */
#endif
#ifndef CAPACITY
#define CAPACITY 1
#endif
#ifndef WEIGHTS
#define WEIGHTS(i, k) 1
#endif
#ifndef CYCLES_OF
#define CYCLES_OF(i) CYCLES
#endif
#ifndef WORD_OF
#define WORD_OF(i, k) 0
#define FIXED_WORDS false
#else
#define FIXED_WORDS true
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef VICTIM
#define VICTIM(i) true   /* who may be killed */
#endif
#ifndef KILL_WHEN
#define KILL_WHEN true
#endif
#ifndef REAPERS
#define REAPERS (DEATHS > 0)
#endif
#ifndef RECLAIMERS
#define RECLAIMERS 0   /* processes that take away stale holds */
#endif
#ifndef RECLAIMS
#define RECLAIMS 1     /* attempts of each */
#endif
#ifndef EXPIRIES
#define EXPIRIES 0     /* how often a lease runs out */
#endif
#ifndef BEATS
#define BEATS 0        /* explicit heartbeats a holder may send in one hold */
#endif
#ifndef GIVEUP
#define GIVEUP 1       /* waiters may cancel */
#endif
#ifndef RECHECKS
#define RECHECKS 0     /* re-checks (finish and settle in turn) a waiter may make when nothing else moves */
#endif
#ifdef FINE
#define CUT } ; atomic {
#else
#define CUT ;
#endif

#define NIL 7
#define NONE 0         /* Op */
#define ACQ 1
#define REL 2
#define HANDOFF 3
#define ENQ 4
#define GRANT 5
#define CANCEL 6
#define RECLAIM 7
#define KEEP 8

#define FREE 0         /* Phase */
#define PREP 1
#define WAITING 2
#define HELD 3
#define MARKED 4
#define LOST 5

#define NO_LOSS 0      /* Loss */
#define STALE 1
#define DIED 2

typedef Word { byte seq; byte used; byte tail; byte last; byte op };
typedef Entry {
  byte ph; byte rec; byte st;          /* status */
  byte next; byte nst;                 /* link */
  byte prev; byte pst;                 /* link */
  byte ho; byte hloss; byte hst;       /* hand-off field */
  byte wt; bit fresh                   /* the lease has not run out since the last sign of life */
};
Word WW[WORDS];
Entry E[N];

bit kill[N];           /* to be killed at its next step */
bit crash;             /* a reclaimer is to stop for ever; it holds nothing */
bit dead[N];           /* killed and not buried */
byte inc[N];           /* incarnation of the session that owns the entry */
byte done;             /* workers that ended */
/* What the participants believe, for the assertions. */
bit inside[N];         /* the worker believes that it holds, and nobody robbed it */
byte sum[WORDS];       /* weights of those inside */
byte newest[WORDS];    /* newest token anybody entered with */
bit promised[N];       /* told "refreshed", and the lease has not run out since */

#define LS(x) (w*100+x.seq)
#define SEQ_IS(x) (WW[w].seq==x.seq)
#ifdef BREAK_VALIDATE
#define CURRENT(x) true
#else
#define CURRENT(x) SEQ_IS(x)
#endif
#ifdef BREAK_RECORD
#define REC_EQ(a, b) true
#else
#define REC_EQ(a, b) (a==b)
#endif
#define STATUS_IS(i, p, r, s) (E[i].ph==p && REC_EQ(E[i].rec, r) && E[i].st==s)
#define SET_STATUS(i, p, r, s) E[i].ph=p; E[i].rec=r; E[i].st=s
#define MINE(p) (s_ph==p && REC_EQ(s_rec, w))
#ifdef BREAK_LINK_STAMP
#define STAMPED(s, x) false
#define STAMP_EQ(a, b) true
#else
#define STAMPED(s, x) (s==LS(x))
#define STAMP_EQ(a, b) (a==b)
#endif
#define LEAVE(i) if :: inside[i] -> inside[i]=0; sum[E[i].rec]=sum[E[i].rec]-E[i].wt :: else fi

inline load(x) { atomic { x.seq=WW[w].seq; x.used=WW[w].used; x.tail=WW[w].tail; x.last=WW[w].last; x.op=WW[w].op } }
inline read_status(i) { s_ph=E[i].ph; s_rec=E[i].rec; s_st=E[i].st }
inline clear_word(x) { x.seq=0; x.used=0; x.tail=0; x.last=0; x.op=0 }
inline clear_fin() {
  s_ph=0; s_rec=0; s_st=0; a_e=0; a_s=0; b_e=0; b_s=0; f_rel=0; f_gr=0; f_loss=0; f_go=0; ahead=0; behind=0
}
inline clear_all() {
  clear_fin(); clear_word(c); clear_word(n);
  hd=0; hw=0; ok=0; res=0; tok=0; mode=0; after=0; ret=0; won=0; loss=0; raw_p=0; raw_s=0
}

/* CAS of the word. With a sequence of its own, equal sequence means equal word. */
#define CAS_WORD(body) atomic { \
    if \
    :: SEQ_IS(c) -> won=1; assert(n.seq==c.seq+1 && n.seq<100); \
       WW[w].seq=n.seq; WW[w].used=n.used; WW[w].tail=n.tail; WW[w].last=n.last; WW[w].op=n.op; body \
    :: else -> won=0 \
    fi \
  }
inline cas_next(at, re, rs, val, x) {
  atomic {
    if :: !STAMPED(rs, x) && E[at].next==re && STAMP_EQ(E[at].nst, rs) -> E[at].next=val; E[at].nst=LS(x) :: else fi
  }
}
inline cas_prev(at, re, rs, val, x) {
  atomic {
    if :: !STAMPED(rs, x) && E[at].prev==re && STAMP_EQ(E[at].pst, rs) -> E[at].prev=val; E[at].pst=LS(x) :: else fi
  }
}
inline fin_released(x) {
  do
  :: atomic {
       read_status(f_rel);
       f_go=(MINE(HELD) || MINE(MARKED) || (MINE(PREP) && s_st==x.seq-1));
       if :: !f_go -> break :: else fi
     }
     atomic { f_go=CURRENT(x); if :: !f_go -> break :: else fi }
     atomic {
       if
       :: STATUS_IS(f_rel, s_ph, s_rec, s_st) ->
          if
          :: f_loss!=NO_LOSS -> SET_STATUS(f_rel, LOST, w, x.seq)
          :: else -> SET_STATUS(f_rel, FREE, w, x.seq)
          fi;
          break
       :: else
       fi
     }
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
        atomic {
          if :: STATUS_IS(f_gr, s_ph, s_rec, s_st) -> SET_STATUS(f_gr, HELD, w, x.seq); E[f_gr].fresh=1 :: else fi
        }
     :: else
     fi
  :: else
  fi
}

/* Finisher::finish */
inline fin(x) {
  if
  :: x.op==NONE -> skip
  :: x.op==ACQ ->
     atomic { f_go=STATUS_IS(x.last, PREP, w, x.seq) }
     if
     :: f_go -> atomic { f_go=CURRENT(x) }
        if
        :: f_go -> atomic { if :: STATUS_IS(x.last, PREP, w, x.seq) -> SET_STATUS(x.last, HELD, w, x.seq) :: else fi }
        :: else
        fi
     :: else
     fi
  :: x.op==ENQ ->
     atomic { f_go=STATUS_IS(x.last, PREP, w, x.seq); CUT ahead=E[x.last].prev }
     if
     :: f_go ->
        if :: ahead!=NIL -> atomic { a_e=E[ahead].next; a_s=E[ahead].nst } :: else fi;
        atomic { f_go=CURRENT(x) }
        if
        :: f_go ->
           if :: ahead!=NIL -> cas_next(ahead, a_e, a_s, x.last, x) :: else fi;
           atomic { if :: STATUS_IS(x.last, PREP, w, x.seq) -> SET_STATUS(x.last, WAITING, w, x.seq) :: else fi }
        :: else
        fi
     :: else
     fi
  :: x.op==REL || x.op==HANDOFF || x.op==RECLAIM || x.op==GRANT ->
     atomic {
       f_rel=x.last; f_gr=NIL; f_loss=NO_LOSS;
       if
       :: x.op==REL -> skip
       :: x.op==GRANT -> f_rel=NIL; f_gr=x.last
       :: else ->
          if
          :: E[x.last].hst==LS(x) ->
             f_gr=E[x.last].ho; f_loss=E[x.last].hloss;
             assert((x.op==RECLAIM) == (f_loss!=NO_LOSS))   /* owner and reclaimer agree on what happened */
          :: else -> f_rel=NIL                              /* its owner went on, so it was finished */
          fi
       fi
     }
#ifdef BREAK_ORDER
     if :: f_rel!=NIL -> fin_released(x) :: else fi;
     if :: f_gr!=NIL -> fin_granted(x) :: else fi
#else
     if :: f_gr!=NIL -> fin_granted(x) :: else fi;
     if :: f_rel!=NIL -> fin_released(x) :: else fi
#endif
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
        if
        :: f_go ->
           atomic { if :: STATUS_IS(x.last, s_ph, s_rec, s_st) -> SET_STATUS(x.last, FREE, w, x.seq) :: else fi }
        :: else
        fi
     :: else
     fi
  :: x.op==KEEP ->
#ifdef BREAK_MARK
     atomic { read_status(x.last); f_go=MINE(MARKED) }
     if
     :: f_go ->
        atomic { f_go=CURRENT(x) }
        if
        :: f_go -> atomic { if :: STATUS_IS(x.last, s_ph, s_rec, s_st) -> E[x.last].ph=HELD :: else fi }
        :: else
        fi
     :: else
     fi
#else
     skip
#endif
  fi;
  atomic { clear_fin() }
}

inline head_of() {
  atomic {
    if :: c.tail==NIL -> hd=NIL :: else -> hd=E[c.tail].next fi;
    hw=0;
    CUT if :: hd!=NIL -> hw=E[hd].wt :: else fi
  }
}
#define FITS(used_, weight_) (used_+weight_<=CAPACITY)
#define OWNED(i) (inc[i]==who)

/* What a participant is doing. One loop serves all operations, so that finishing stands here once:
   load, finish, step; after a CAS that was won: finish the own operation, then go on. */
#define TAKE 1
#define DO_CANCEL 2
#define RELEASE 3
#define ROB 4          /* reclaim() */
#define BEAT 5
#define SETTLE 6
#define BURY 7
#define FINISH 8

#ifdef BREAK_UNTOUCHED
#define UNTOUCHED (c.seq==tok)
#else
#define UNTOUCHED (c.seq==tok && c.op==ACQ)
#endif
#ifdef BREAK_FINISH_ACQUIRE
#define NO_FINISH_ACQUIRE (mode==TAKE)
#else
#define NO_FINISH_ACQUIRE false
#endif
#ifdef BREAK_FINISH_RELEASE
#define NO_FINISH_RELEASE (mode==RELEASE)
#else
#define NO_FINISH_RELEASE false
#endif
#ifdef BREAK_FINISH_CANCEL
#define NO_FINISH_CANCEL (mode==DO_CANCEL)
#else
#define NO_FINISH_CANCEL false
#endif
#ifdef BREAK_SETTLE
#define SETTLE_LEAVES_EARLY (mode==SETTLE && c.tail==NIL)
#else
#define SETTLE_LEAVES_EARLY false
#endif
#define WITHOUT_FINISHING (!won && ((mode==TAKE && c.op==REL && c.last==me) || (mode==RELEASE && UNTOUCHED) || \
  SETTLE_LEAVES_EARLY || NO_FINISH_ACQUIRE || NO_FINISH_RELEASE || NO_FINISH_CANCEL))

#define JUDGE loss=(thief -> (E[i].fresh -> NO_LOSS : STALE) : (OWNED(i) -> DIED : NO_LOSS))
#define SET_N(used_, tail_, op_) n.seq=c.seq+1; n.used=used_; n.tail=tail_; n.last=i; n.op=op_

/* give_back(): a CAS, or nothing (busy). */
inline give_back() {
  head_of();
  atomic {
    SET_N((c.used>=E[i].wt -> c.used-E[i].wt : 0), c.tail, (loss!=NO_LOSS -> RECLAIM : REL));
    ok=1;
    if
    :: hd!=NIL && FITS(n.used, hw) ->
       n.used=n.used+hw;
       if :: hd==c.tail -> n.tail=NIL :: else fi;
       if :: n.op==REL -> n.op=HANDOFF :: else fi
    :: else -> hd=NIL
    fi
  }
  if
  :: n.op!=REL ->
     atomic { a_e=E[i].ho; b_e=E[i].hloss; a_s=E[i].hst }
     if
#ifdef BREAK_ADOPT
     :: true ->
#else
     :: a_s==LS(n) ->
        if
        :: (b_e==NO_LOSS)!=(loss==NO_LOSS) -> atomic { SET_N(c.used, c.tail, KEEP); ok=0 } CAS_WORD(skip)
        :: else
        fi
     :: else ->
#endif
        atomic { if :: !SEQ_IS(c) -> ok=0 :: else fi }
        if
        :: ok ->
           atomic {
             if
             :: E[i].ho==a_e && E[i].hloss==b_e && E[i].hst==a_s -> E[i].ho=hd; E[i].hloss=loss; E[i].hst=LS(n)
             :: else -> ok=0
             fi
           }
        :: else
        fi
     fi;
     atomic { a_e=0; b_e=0; a_s=0 }
  :: else
  fi;
  if
  :: ok ->
     CAS_WORD(
       if
       :: loss!=NO_LOSS ->
          assert(loss==DIED || !promised[i]);     /* who was told "refreshed" keeps its hold */
          assert(loss!=DIED || dead[i]);          /* nobody is robbed for the death of another */
          LEAVE(i)
       :: else
       fi);
     /* A plain release is left unfinished (F4). */
     if :: won && n.op==REL -> atomic { won=0; res=1; mode=ret } :: else fi
  :: else
  fi
}

/* The loop head of heartbeat(): ends it, unless the hold is marked. */
inline look_at_own() {
  atomic {
    if
    :: E[i].rec!=w || E[i].st!=tok -> res=0; mode=0
    :: else ->
       if
       :: E[i].ph==HELD || E[i].ph==PREP -> res=1; mode=0; assert(inside[i]); promised[i]=E[i].fresh
       :: E[i].ph==MARKED -> mode=BEAT
       :: else -> res=0; mode=0
       fi
    fi
  }
}

inline machine() {
  do
  :: mode==0 -> break
  :: else ->
     if
     :: mode==BURY && !won ->
        atomic {
          read_status(i); raw_p=s_ph; raw_s=s_st; w=s_rec; s_ph=0; s_rec=0; s_st=0;
          CUT if :: !OWNED(i) || (raw_p==FREE && raw_s==0) -> mode=0 :: else fi
        }
        if
        :: mode==0 -> break
        :: raw_p==LOST ->
           atomic { if :: STATUS_IS(i, LOST, w, raw_s) -> E[i].ph=FREE; mode=SETTLE; after=0 :: else fi }
        :: raw_p==FREE -> mode=SETTLE; after=0
        :: else
        fi
     :: else
     fi;
     if :: won -> atomic { c.seq=n.seq; c.used=n.used; c.tail=n.tail; c.last=n.last; c.op=n.op } :: else -> load(c) fi;
     if :: WITHOUT_FINISHING -> skip :: else -> fin(c) fi;
     if
     :: won -> atomic {                            /* the own operation is finished */
          won=0;
          if
          :: mode==TAKE -> res=2; mode=0
          :: mode==DO_CANCEL -> res=1; mode=SETTLE; after=0
          :: mode==BEAT -> res=1; mode=0
          :: (mode==RELEASE || mode==ROB) && c.op!=KEEP ->
             res=1;
             if :: hd!=NIL -> mode=SETTLE; after=ret :: else -> mode=ret fi
#ifdef BREAK_MARK
          :: mode==ROB && c.op==KEEP && loss==NO_LOSS -> mode=ret
#endif
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
              if
              :: hd==NIL || !FITS(c.used, hw) -> atomic { if :: SEQ_IS(c) -> mode=after; after=0 :: else fi }
              :: else ->
                 atomic { n.seq=c.seq+1; n.used=c.used+hw; n.last=hd; n.op=GRANT; n.tail=(hd==c.tail -> NIL : c.tail) }
                 CAS_WORD(skip)
              fi
           fi
        :: mode==TAKE ->
           if
           :: c.tail==NIL && FITS(c.used, E[i].wt) ->
              atomic { SET_STATUS(i, PREP, w, c.seq+1); E[i].fresh=1; SET_N(c.used+E[i].wt, c.tail, ACQ) }
              CAS_WORD(skip);
              if :: won -> atomic { won=0; res=1; tok=n.seq; mode=0 } :: else fi
           :: else ->
              head_of();
              if
              :: hd!=NIL && FITS(c.used, hw) -> mode=SETTLE; after=TAKE
              :: c.tail!=NIL && hd==NIL -> atomic { assert(!SEQ_IS(c)) }  /* corrupt */
              :: else ->
                 atomic {
                   E[i].prev=c.tail; E[i].pst=w*100+c.seq+1;
                   CUT E[i].next=(c.tail==NIL -> i : hd); E[i].nst=w*100+c.seq+1;
                   CUT SET_STATUS(i, PREP, w, c.seq+1); E[i].fresh=1;
                   SET_N(c.used, i, ENQ)
                 }
                 CAS_WORD(skip)
              fi
           fi
        :: mode==RELEASE ->
           if
           :: UNTOUCHED -> ok=1
           :: else -> atomic { ok=(E[i].rec==w && E[i].st==tok && (E[i].ph==HELD || E[i].ph==MARKED || E[i].ph==PREP)) }
           fi;
           if
           :: ok -> give_back()
           :: else -> atomic { if :: SEQ_IS(c) -> res=0; mode=0 :: else fi }
           fi
        :: mode==DO_CANCEL || mode==BURY ->
           atomic { read_status(i); CUT hd=E[i].next; CUT hw=E[i].prev }
           atomic { ok=(mode==DO_CANCEL || STATUS_IS(i, raw_p, w, raw_s)); CUT ok=ok && SEQ_IS(c) }
           atomic { ok=ok && (mode==DO_CANCEL || OWNED(i)) }
           if
           :: !ok -> skip
           :: ok && MINE(WAITING) ->
              assert(c.tail!=NIL && hd!=NIL && (c.tail!=i || hd==i || hw!=NIL));   /* corrupt */
              atomic { SET_N(c.used, (c.tail!=i -> c.tail : (hd==i -> NIL : hw)), CANCEL) }
              CAS_WORD(assert(OWNED(i)))    /* nobody is thrown out of the queue for the death of another */
           :: ok && mode==DO_CANCEL && !MINE(WAITING) ->
              atomic { res=(MINE(HELD) || MINE(MARKED) -> 2 : 0); tok=s_st; mode=0 }
           :: ok && mode==BURY && (MINE(HELD) || MINE(MARKED)) -> mode=ROB; ret=BURY
           :: ok && mode==BURY && MINE(PREP) ->
              if
              :: raw_s==c.seq+1 -> atomic { SET_N(c.used, c.tail, KEEP) } CAS_WORD(skip)
              :: else -> atomic { if :: STATUS_IS(i, PREP, w, raw_s) -> assert(OWNED(i)); E[i].ph=FREE :: else fi }
              fi
           :: else
           fi;
           atomic { s_ph=0; s_rec=0; s_st=0 }
        :: mode==ROB ->
#ifdef BREAK_JUDGE
           atomic { JUDGE }
#endif
           atomic { read_status(i) }
           atomic { ok=SEQ_IS(c) }
           if
           :: !ok -> skip
           :: ok && !MINE(HELD) && !MINE(MARKED) -> mode=ret
           :: else ->
              if
              :: s_ph==HELD ->
                 atomic { if :: STATUS_IS(i, s_ph, s_rec, s_st) -> E[i].ph=MARKED; s_ph=MARKED :: else -> ok=0 fi }
              :: else
              fi;
              if
              :: ok ->
#ifndef BREAK_JUDGE
                 atomic { JUDGE }
#endif
                 if
                 :: loss!=NO_LOSS -> give_back()
#ifdef BREAK_MARK
                 :: loss==NO_LOSS -> atomic { SET_N(c.used, c.tail, KEEP) } CAS_WORD(skip)
#else
                 :: loss==NO_LOSS -> mode=ret                  /* fresh; the mark stays */
#endif
                 fi
              :: else
              fi
           fi;
           atomic { s_ph=0; s_rec=0; s_st=0 }
        :: mode==BEAT ->              /* the status was seen marked */
           atomic { ok=(E[i].ph==MARKED) }
           if
           :: ok -> atomic { SET_N(c.used, c.tail, KEEP) } CAS_WORD(assert(inside[i]); promised[i]=E[i].fresh)
           :: else
           fi;
           if :: !won -> look_at_own() :: else fi
        fi
     fi
  od;
  atomic { clear_word(c); clear_word(n); hd=0; hw=0; ok=0; ret=0; after=0; loss=0; raw_p=0; raw_s=0 }
}

#define ENTER inside[me]=1; sum[w]=sum[w]+E[me].wt; assert(sum[w]<=CAPACITY); \
  assert(CAPACITY>1 || tok>newest[w]); newest[w]=tok
#define LOCALS byte w=0; Word c; Word n; bit ok; byte res; byte tok; byte hd; byte hw; \
  byte s_ph; byte s_rec; byte s_st; byte a_e; byte a_s; byte b_e; byte b_s; byte f_rel; byte f_gr; \
  byte f_loss; bit f_go; byte ahead; byte behind; \
  byte mode; byte after; byte ret; bit won; byte loss; byte raw_p; byte raw_s; byte who

proctype Worker(byte me) {
  LOCALS; byte i=me; bit thief=0; byte k=0; byte beats=0; byte looks=0; byte step=0;
again:
  {
    do
    :: step==0 && k<CYCLES_OF(me) ->
       atomic {
         k++; who=inc[me];
         if :: !FIXED_WORDS -> if :: w=0 :: WORDS>1 -> w=1 fi :: else -> w=WORD_OF(me, k) fi;
         E[me].wt=WEIGHTS(me, k); mode=TAKE; step=1
       }
    :: step==0 && k==CYCLES_OF(me) -> atomic { done++; goto ended }
    :: step!=0 ->
       machine();
       if
       :: step==1 && res==1 -> atomic { ENTER; step=3; res=0 }
       :: step==1 && res==2 -> atomic { step=2; res=0 }
       :: step==2 && res==1 -> atomic { step=0; res=0 }                         /* gave up, or re-checked (3) */
       :: step==2 && res==0 ->
          if
          :: atomic { CAPACITY>1 && (E[me].ph==HELD || E[me].ph==MARKED) -> mode=SETTLE; step=9 }
          :: atomic { CAPACITY==1 && (E[me].ph==HELD || E[me].ph==MARKED) -> tok=E[me].st; ENTER; step=3 }
          :: atomic { E[me].ph==LOST -> step=5 }
          :: atomic { E[me].ph==FREE -> assert(false) }                         /* nobody but me may cancel me */
          :: atomic { GIVEUP -> mode=DO_CANCEL; step=6 }
          :: atomic { looks<RECHECKS && timeout -> looks++; mode=(looks%2==1 -> FINISH : SETTLE) }
          fi
       :: step==9 -> atomic {
            if
            :: E[me].ph==HELD || E[me].ph==MARKED -> tok=E[me].st; ENTER; step=3
            :: else -> step=5
            fi;
            res=0 }
       :: step==6 -> atomic {
            if
            :: res==2 && E[me].rec==w && E[me].st==tok && (E[me].ph==HELD || E[me].ph==MARKED) -> ENTER; step=3
            :: else -> step=5
            fi;
            res=0 }
       :: step==3 -> atomic {
            if
            :: beats<BEATS -> beats++; E[me].fresh=1; step=4
            :: LEAVE(me); promised[me]=0; mode=RELEASE; step=7
            fi }
            if :: step==4 -> look_at_own() :: else fi
       :: step==4 -> atomic { if :: res -> step=3 :: else -> mode=FINISH; step=5 fi; res=0 }
       :: step==7 -> atomic {
            assert(!res || E[me].ph!=LOST);      /* who was told "released" is not told later that it was robbed */
            step=(res -> 8 : 5); res=0 }
       :: step==5 -> atomic { SET_STATUS(me, FREE, 0, 0); step=8 }   /* lost, or given up: the entry is out of use */
       :: step==8 -> atomic { promised[me]=0; beats=0; looks=0; tok=0; w=0; step=0 }
       fi
    od
  } unless {
    atomic { kill[me] -> kill[me]=0; dead[me]=1; clear_all(); beats=0; looks=0; w=0; who=0; step=0; promised[me]=0 }
  };
  !dead[me] -> goto again;     /* the entry belongs to a new session now */
ended:
  skip
}

#define DEAD(x) (x<N && dead[x%N])
#define STALE_HOLD(x) (thief && x<N && k<RECLAIMS && done<N && inside[x%N] && !E[x%N].fresh)
/* A burier, or a thief: somebody who takes stale holds away. */
proctype Helper(bit thief) {
  LOCALS; byte i=0; byte k=0; byte me=NIL;
  {
  do
  :: atomic {
       if
       :: !thief && done==N -> break
       :: !thief && DEAD(0) -> i=0
       :: !thief && DEAD(1) -> i=1
       :: !thief && DEAD(2) -> i=2
       :: STALE_HOLD(0) -> i=0
       :: STALE_HOLD(1) -> i=1
       :: STALE_HOLD(2) -> i=2
       :: thief -> break
       fi;
       if :: thief -> k++; w=E[i].rec; mode=ROB :: else -> who=inc[i]; mode=BURY fi
     }
     machine();
     atomic { if :: !thief && inc[i]==who && dead[i] -> inc[i]++; dead[i]=0 :: else fi; clear_all(); who=0; w=0; i=0 }
  od
  } unless { atomic { thief && crash -> crash=0; clear_all(); i=0; w=0; k=0 } }
}

proctype Killer() {
  byte k=0; bit crashed=0;
  do
#ifdef CRASH
  :: atomic { !crashed && CRASH -> crashed=1; crash=1 }
#endif
  :: atomic { k<DEATHS && VICTIM(0) && KILL_WHEN && !dead[0] && !kill[0] -> k++; kill[0]=1 }
#if N>1
  :: atomic { k<DEATHS && VICTIM(1) && !dead[1] && !kill[1] -> k++; kill[1]=1 }
#endif
#if N>2
  :: atomic { k<DEATHS && VICTIM(2) && !dead[2] && !kill[2] -> k++; kill[2]=1 }
#endif
  :: break
  od;
  atomic { done==N -> crash=0 }
}

proctype Clock() {
  byte k=0;
  do
  :: atomic { k<EXPIRIES && E[0].fresh && inside[0] -> k++; E[0].fresh=0; promised[0]=0 }
#if N>1
  :: atomic { k<EXPIRIES && E[1].fresh && inside[1] -> k++; E[1].fresh=0; promised[1]=0 }
#endif
  :: break
  od
}

init {
  byte w; byte i;
  atomic {
    for (w : 0 .. WORDS-1) { WW[w].seq=1; WW[w].tail=NIL; WW[w].last=NIL }
    for (i : 0 .. N-1) { E[i].next=NIL; E[i].prev=NIL; E[i].ho=NIL; run Worker(i) }
    i=0; do :: i<REAPERS -> i++; run Helper(0) :: else -> break od;
    i=0; do :: i<RECLAIMERS -> i++; run Helper(1) :: else -> break od;
    i=0;
    if :: DEATHS>0 -> run Killer() :: else fi;
    if :: EXPIRIES>0 -> run Clock() :: else fi
  }
  atomic { _nr_pr==1 -> skip }
  /* Quiescence: the words are finished by hand where only a plain release is outstanding (F4). */
  atomic {
    for (w : 0 .. WORDS-1) {
      assert(WW[w].used==0 && WW[w].tail==NIL);
      if :: WW[w].op==REL && E[WW[w].last].rec==w && E[WW[w].last].ph!=LOST -> E[WW[w].last].ph=FREE :: else fi;
      assert(sum[w]==0)
    }
    for (i : 0 .. N-1) { assert(E[i].ph==FREE && !inside[i]) }
  }
}
