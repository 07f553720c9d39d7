/*
 * Model of the name index as src/engine/name_index.hpp has it: insert, look-up, removal (close, floor, mark, unlink,
 * bucket sequence, generation, directory), re-use of a record for the same or another name (recycling.hpp), handles
 * that acquire on a record that may be somebody else's by now, death at any step, recovery by one or two, and the next
 * owner of the slot. Steps are single loads, stores and CASes of shared words, as in the code.
 *
 * Asserted: a name is in the index at most once; one that is there all the while is found; what is found has that name;
 * nobody acquires on a record that is not the name's any more; tokens of a name grow over its removal; at the end every
 * record is free or live, each live one is in its chain once, unmarked, and no name was lost.
 *
 * Sequentially consistent. One word stands for all that write_record() writes, and the control word is {sequence, used,
 * closed}: the protocol on it is control.pml's. Not modelled: pages, hints (the search starts at the first record),
 * for_each_live(), numbers that wrap.
 *
 * Records are 1..RECORDS, 0 ends a chain. Each BREAK_... takes one rule away.
 */
#ifndef N
#define N 2               /* sessions; session i owns slot i */
#endif
#ifndef RECORDS
#define RECORDS 2
#endif
#ifndef NAMES
#define NAMES 2
#endif
#ifndef BUCKETS
#define BUCKETS 1
#define BUCKET_OF(name) 0
#endif
#ifndef BORN
#define BORN 0            /* names 0..BORN-1 are there from the start, the last one first in its chain */
#endif
#ifndef OPS_OF
#define OPS_OF(i) 1
#endif
#ifndef OP_OF
#define OP_OF(i, k) USE
#endif
#ifndef NAME_OF
#define NAME_OF(i, k) 0
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef VICTIM
#define VICTIM(i) true
#endif
#ifndef BURIERS
#if DEATHS > 0
#define BURIERS 1
#else
#define BURIERS 0
#endif
#endif
#ifndef LOOKUPS
#define LOOKUPS 2         /* of one handle: two sessions could take one record from each other for ever */
#endif
#ifndef ROOM
#define ROOM false        /* may a session recycle names when no record is free? */
#endif

#define FREE 0            /* RecordState */
#define CLAIMED 1
#define LIVE 2

#define ALIVE 0           /* SlotState */
#define DYING 1
#define EMPTY 2
#define JOINING 3

/* Operations of a session. */
#define LOOK 1
#define USE 2             /* find_or_insert, acquire, release */
#define INSERT 3          /* find_or_insert */
#define REMOVE 4
/* Parts of them: what a session is doing. */
#define WALK 10
#define FOUND_SOME 11
#define CLAIM 12
#define ATTEMPT 13
#define WALKED 14
#define GIVE_UP 15
#define COMPLETE 16
#define SET_FREE 17
#define CLOSE 18
#define ACQUIRE 19
#define REMOVED 20
#define RECYCLE 21
#define RECOVER 22
#define LINKED 23

#define ABSENT 0          /* Walk */
#define FOUND 1
#define CHANGED 2

typedef Bucket { byte seq; byte head };
typedef Record {
  byte state; byte claimer; byte dgen;      /* directory word */
  byte gen;                                 /* generation */
  byte cgen; bit marked; byte next;         /* chain word */
  byte seq; byte used; bit closed;          /* control word */
  byte name
};
typedef Slot { byte state; byte inc; byte claiming; byte held; byte hseq };
Bucket B[BUCKETS];
Record RR[RECORDS+1];     /* 0 is not used */
Slot SS[N];
byte floor_;

bit kill[N];
bit dead[N];
byte done;
/* The truth, for the assertions. */
byte there[NAMES];        /* record of the name, 0: it is not there */
byte life[NAMES];         /* its generation */
byte newest[NAMES];       /* newest token of the name */
byte absences[NAMES];     /* how often it went */
byte loose[RECORDS+1];    /* bucket + 1 from whose middle it was unlinked, until its sequence is raised */
byte based[N+BURIERS+1];  /* the record whose chain word a sweeper is about to change */
bit moved[N+BURIERS+1];   /* that word was written since it was read */

inline chain_written(r) {
  y=0;
  do :: y<N+BURIERS -> if :: based[y]==r -> moved[y]=1 :: else fi; y++ :: else -> y=0; break od
}
inline bucket_written() {
  y=1;
  do :: y<=RECORDS -> if :: loose[y]==b+1 -> loose[y]=0 :: else fi; y++ :: else -> y=0; break od
}

#define BUCKET_IS(s, h) (B[b].seq==s && B[b].head==h)
#ifdef BREAK_RECHECK
#define STILL(s, h) true
#else
#define STILL(s, h) BUCKET_IS(s, h)
#endif
#ifdef BREAK_CHAIN_GENERATION
#define CHAIN_IS(r, g, m, n) (RR[r].marked==m && RR[r].next==n)
#else
#define CHAIN_IS(r, g, m, n) (RR[r].cgen==g && RR[r].marked==m && RR[r].next==n)
#endif
#define CLOSED_RECORD(r, g) atomic { is_closed=RR[r].closed } \
  if :: is_closed -> atomic { is_closed=(RR[r].gen==g) } :: else fi

#define DIRECTORY_IS(r) (RR[r].state==d_state && RR[r].claimer==d_claimer && RR[r].dgen==d_gen)

inline clear_machine() {
  mode=0; ret2=0; ret3=0; b=0; seen_s=0; seen_h=0; next=0; steps=0; c_g=0; c_m=0; c_n=0; hit=0; res=0; g_r=0; g_g=0;
  f_r=0; f_g=0; m_r=0; m_g=0; by_record=0; before=0; b_g=0; b_n=0; k_seq=0; is_closed=0; ok=0; x=0; n=0;
  d_state=0; d_claimer=0; d_gen=0; recycling=0; at=0; room=0; op=0; hit2=0; tries=0; y=0; based[self]=0; moved[self]=0
}

/* walk(): through the chain as it was when the bucket word was `seen`. */
inline walk() {
  atomic { next=seen_h; steps=0 }
  do
  :: next==0 -> atomic { res=(STILL(seen_s, seen_h) -> ABSENT : CHANGED); break }
  :: next!=0 && steps>RECORDS -> atomic { assert(!BUCKET_IS(seen_s, seen_h)); res=CHANGED; break }   /* a circle */
  :: next!=0 && steps<=RECORDS ->
     atomic { c_n=RR[next].next }
     atomic { hit=(by_record -> next==f_r : RR[next].name==n) }
     if
     :: hit ->
        atomic { x=RR[next].gen }
        atomic {
          if
          :: STILL(seen_s, seen_h) -> assert(x!=0); res=FOUND; g_r=next; g_g=x
          :: else -> res=CHANGED
          fi;
          x=0; break
        }
     :: else -> atomic { next=c_n; steps++ }
     fi
  od;
  atomic { next=0; steps=0; c_n=0; hit=0 }
}

/* sweep(): unlinks every marked record of bucket b. */
inline sweep() {
  do
  :: atomic { seen_s=B[b].seq; seen_h=B[b].head; before=0; next=seen_h; steps=0; ok=1 }
     do
     :: next==0 || !ok -> break
     :: next!=0 && ok && steps>RECORDS -> atomic { assert(!BUCKET_IS(seen_s, seen_h)); ok=0 }
     :: next!=0 && ok && steps<=RECORDS ->
        atomic { c_g=RR[next].cgen; c_m=RR[next].marked; c_n=RR[next].next; x=next; next=c_n; steps++;
                 if :: !c_m -> based[self]=x; moved[self]=0 :: else fi }
        if
        :: !c_m -> atomic { before=x; b_g=c_g; b_n=c_n }
        :: c_m && before==0 ->
           atomic {
             if
             :: BUCKET_IS(seen_s, seen_h) -> B[b].head=c_n; B[b].seq++; seen_h=c_n; seen_s++; bucket_written()
             :: else -> ok=0
             fi
           }
        :: c_m && before!=0 ->
           atomic {
             if
             :: CHAIN_IS(before, b_g, 0, b_n) ->
                assert(!moved[self]);      /* the link was there all the time */
                RR[before].cgen=b_g; RR[before].next=c_n; b_n=c_n; loose[x]=b+1; chain_written(before); moved[self]=0
             :: else -> ok=0
             fi
           }
        fi
     od;
     if :: ok -> break :: else fi
  od;
  atomic { seen_s=0; seen_h=0; before=0; next=0; steps=0; c_g=0; c_m=0; c_n=0; b_g=0; b_n=0; x=0; ok=0;
    based[self]=0; moved[self]=0 }
}

inline raise_floor() { atomic { if :: floor_<k_seq -> floor_=k_seq :: else fi } }
inline raise_bucket() { atomic { B[b].seq++; assert(B[b].seq<100); bucket_written() } }

/* complete_removal(f) up to set_free(). */
inline complete() {
  atomic { k_seq=RR[f_r].seq; is_closed=RR[f_r].closed }
  atomic { ok=(RR[f_r].gen==f_g) }
  if
  :: ok && !is_closed -> mode=ret2
  :: ok && is_closed ->
#ifndef BREAK_FLOOR
     raise_floor();
#endif
#ifndef BREAK_MARK
     do
     :: atomic { c_g=RR[f_r].cgen; c_m=RR[f_r].marked; c_n=RR[f_r].next }
        if
        :: c_m || c_g!=f_g -> break
        :: else -> atomic { if :: CHAIN_IS(f_r, c_g, 0, c_n) -> RR[f_r].marked=1; chain_written(f_r); break :: else fi }
        fi
     od;
#endif
     atomic { b=BUCKET_OF(RR[f_r].name); c_g=0; c_m=0; c_n=0 }
     atomic { ok=(RR[f_r].gen==f_g) }
     if
     :: ok ->
        sweep();
#ifndef BREAK_BUCKET
        raise_bucket()
#endif
     :: else
     fi;
     atomic { mode=SET_FREE; ret3=ret2 }
#ifdef BREAK_FLOOR
     raise_floor()
#endif
  :: else -> atomic { mode=SET_FREE; ret3=ret2 }
  fi;
  atomic { k_seq=0; is_closed=0; ok=0 }
}

inline set_free() {
  atomic { x=RR[f_r].gen }
  if
  :: x!=0 && x<=f_g -> atomic { if :: RR[f_r].gen==x -> RR[f_r].gen=0 :: else fi }
  :: else
  fi;
  do
  :: atomic { d_state=RR[f_r].state; d_claimer=RR[f_r].claimer; d_gen=RR[f_r].dgen }
     if
     :: d_gen!=f_g || d_state==FREE -> break
     :: else ->
        atomic {
          if
          :: DIRECTORY_IS(f_r) -> RR[f_r].state=FREE; RR[f_r].claimer=0; assert(loose[f_r]==0); break
          :: else
          fi
        }
#ifdef BREAK_AGAIN
        break
#endif
     fi
  od;
  atomic { x=0; d_state=0; d_claimer=0; d_gen=0; mode=ret3; ret3=0 }
}

inline machine() {
  do
  :: mode==0 -> break
  /* find(n): FOUND and g, or ABSENT. */
  :: mode==WALK ->
     atomic { b=BUCKET_OF(n); seen_s=B[b].seq; seen_h=B[b].head; by_record=0 }
     walk();
     if
     :: res==CHANGED
     :: res==ABSENT -> mode=FOUND_SOME
     :: res==FOUND ->
        CLOSED_RECORD(g_r, g_g);
        atomic { if :: is_closed -> res=ABSENT; is_closed=0 :: else fi; mode=FOUND_SOME }
     fi;
     atomic { seen_s=0; seen_h=0 }
  :: mode==FOUND_SOME ->
     atomic {
       if
       :: op==LOOK -> mode=0
       :: op==REMOVE && res==FOUND -> f_r=g_r; f_g=g_g; mode=CLOSE
       :: op==REMOVE && res==ABSENT -> mode=0
       :: op==INSERT && res==FOUND -> mode=0
       :: op==USE && res==FOUND -> mode=ACQUIRE
       :: (op==INSERT || op==USE) && res==ABSENT -> mode=CLAIM; at=1; room=0
       fi
     }
  :: mode==CLAIM ->
     atomic { d_state=RR[at].state; d_gen=RR[at].dgen }
     if
     :: d_state==FREE ->
#ifdef BREAK_CLAIMING
        atomic {
          if
          :: RR[at].state==FREE && RR[at].dgen==d_gen -> RR[at].state=CLAIMED; RR[at].claimer=me; RR[at].dgen++;
             m_r=at; m_g=d_gen+1
          :: else
          fi
        }
        if :: m_r!=0 -> SS[me].claiming=at :: else fi;
#else
        SS[me].claiming=at;
        atomic {
          if
          :: RR[at].state==FREE && RR[at].dgen==d_gen -> RR[at].state=CLAIMED; RR[at].claimer=me; RR[at].dgen++;
             m_r=at; m_g=d_gen+1
          :: else
          fi
        }
#endif
     :: else
     fi;
     atomic { d_state=0; d_gen=0 }
     if
     :: m_r!=0 -> RR[m_r].name=n; mode=ATTEMPT
     :: m_r==0 && at<RECORDS -> at++
     :: m_r==0 && at==RECORDS ->
        SS[me].claiming=0;
        if :: ROOM -> atomic { mode=RECYCLE; at=1 } :: else -> atomic { mode=0; g_r=0; g_g=0 } fi
     fi
  /* recycle_names(), a batch of one: then the search starts again. */
  :: mode==RECYCLE ->
     if
     :: at>RECORDS -> atomic { if :: room -> mode=WALK; at=0 :: else -> mode=0; g_r=0; g_g=0; at=0 fi }
     :: else ->
        atomic { d_state=RR[at].state; d_gen=RR[at].dgen; if :: d_state==FREE -> room=1 :: else fi }
        if
        :: d_state==LIVE -> atomic { ok=(RR[at].closed || !RR[at].used) }
           if
           :: ok -> atomic { f_r=at; f_g=d_gen; recycling=1; mode=CLOSE }
           :: else
           fi
        :: else
        fi;
        atomic { d_state=0; d_gen=0; ok=0; at++ }
     fi
  :: mode==ATTEMPT ->
     atomic { b=BUCKET_OF(n); seen_s=B[b].seq; seen_h=B[b].head; by_record=0 }
     walk();
     if
     :: res==CHANGED
     :: res==FOUND ->
        CLOSED_RECORD(g_r, g_g);
        if
        :: is_closed -> atomic { is_closed=0; f_r=g_r; f_g=g_g; mode=COMPLETE; ret2=ATTEMPT }
        :: else -> atomic { f_r=m_r; f_g=m_g; mode=SET_FREE; ret3=GIVE_UP }
        fi
     :: res==ABSENT ->
        atomic { k_seq=floor_+1 }
        atomic { RR[m_r].seq=k_seq; RR[m_r].closed=0; RR[m_r].used=0 }
        atomic { RR[m_r].cgen=m_g; RR[m_r].marked=0; RR[m_r].next=seen_h; chain_written(m_r) }
        RR[m_r].gen=m_g;
        atomic {
          if
          :: BUCKET_IS(seen_s, seen_h) ->
             B[b].seq++; B[b].head=m_r; ok=1; bucket_written();
             assert(there[n]==0);            /* a name is there at most once */
             there[n]=m_r; life[n]=m_g;
             assert(k_seq>newest[n])         /* tokens grow over a removal */
          :: else
          fi
        }
        if
        :: ok ->
           atomic {
             if
             :: RR[m_r].state==CLAIMED && RR[m_r].claimer==me && RR[m_r].dgen==m_g ->
                RR[m_r].state=LIVE; RR[m_r].claimer=0
             :: else
             fi
           }
           SS[me].claiming=0;
           atomic { g_r=m_r; g_g=m_g; m_r=0; m_g=0; ok=0; mode=(op==USE -> ACQUIRE : 0) }
        :: else ->
           atomic {
             if
             :: RR[m_r].state==CLAIMED && RR[m_r].claimer==me && RR[m_r].dgen==m_g -> RR[m_r].dgen++
             :: else
             fi;
             m_g++
           }
        fi
     fi;
     atomic { seen_s=0; seen_h=0; k_seq=0 }
  :: mode==GIVE_UP ->
     SS[me].claiming=0;
     atomic { f_r=0; f_g=0; m_r=0; m_g=0; mode=(op==USE -> ACQUIRE : 0) }
  :: mode==COMPLETE -> complete()
  :: mode==SET_FREE -> set_free()

  /* remove(f): close_if() of the control word first. */
  :: mode==CLOSE ->
     SS[me].claiming=f_r;
     do
     :: atomic { k_seq=RR[f_r].seq; is_closed=RR[f_r].closed; x=RR[f_r].used }
        atomic { ok=(RR[f_r].gen==f_g) }
        if
        :: !ok -> break
        :: ok && is_closed -> break
        :: ok && !is_closed && x -> atomic { if :: RR[f_r].seq==k_seq -> ok=0; break :: else fi }
        :: ok && !is_closed && !x ->
           atomic {
             if
             :: RR[f_r].seq==k_seq && !RR[f_r].closed && !RR[f_r].used ->
                RR[f_r].closed=1; RR[f_r].seq++;
                assert(there[RR[f_r].name]==f_r && life[RR[f_r].name]==f_g);
                there[RR[f_r].name]=0; life[RR[f_r].name]=0; newest[RR[f_r].name]=RR[f_r].seq; absences[RR[f_r].name]++;
                break
             :: else
             fi
           }
        fi
     od;
     atomic { k_seq=0; x=0 }
     if
     :: !ok ->           /* is_current && !closed: in use */
        atomic { ok=(RR[f_r].gen==f_g) }
        if
        :: ok -> CLOSED_RECORD(f_r, f_g); ok=!is_closed
        :: else
        fi;
        if
        :: ok -> mode=REMOVED
        :: else -> atomic { mode=COMPLETE; ret2=REMOVED; if :: recycling -> room=1 :: else fi }
        fi
     :: else -> atomic { mode=COMPLETE; ret2=REMOVED; if :: recycling -> room=1 :: else fi }
     fi;
     atomic { ok=0; is_closed=0 }
  :: mode==REMOVED ->
     SS[me].claiming=0;
     atomic { f_r=0; f_g=0; if :: recycling -> recycling=0; mode=RECYCLE :: else -> mode=0 fi }

  /* An acquire and a release on the handle g. */
  :: mode==ACQUIRE ->
     atomic { k_seq=RR[g_r].seq; is_closed=RR[g_r].closed; x=RR[g_r].used }
#ifdef BREAK_GENERATION
     ok=1;
#else
     atomic { ok=(RR[g_r].gen==g_g) }
#endif
     if
     :: !ok || is_closed -> atomic { tries++; mode=(tries<LOOKUPS -> WALK : 0) }            /* look it up again */
     :: ok && !is_closed && x -> atomic { if :: RR[g_r].seq==k_seq -> mode=0 :: else fi }      /* busy */
     :: ok && !is_closed && !x ->
        atomic { SS[me].held=g_r; SS[me].hseq=k_seq+1 }      /* the entry is prepared */
        atomic {
          if
          :: RR[g_r].seq==k_seq && !RR[g_r].closed && !RR[g_r].used ->
             RR[g_r].seq++; RR[g_r].used=me+1; mode=1;
             assert(there[n]==g_r && life[n]==g_g);          /* the record is this name's */
             assert(RR[g_r].seq>newest[n]); newest[n]=RR[g_r].seq
          :: else
          fi
        }
        if
        :: mode==1 ->
           atomic { assert(RR[g_r].used==me+1 && there[n]==g_r); RR[g_r].used=0; RR[g_r].seq++; newest[n]=RR[g_r].seq }
           atomic { SS[me].held=0; SS[me].hseq=0; mode=0 }
        :: else
        fi
     fi;
     atomic { k_seq=0; is_closed=0; x=0; ok=0 }

  /* recover_claim(i), by whoever buries slot i; then what the dead one held. */
  :: mode==RECOVER ->
     atomic { ok=(SS[i].state==DYING && SS[i].inc==who) }    /* finish_burial(): still dying? */
     if
     :: !ok -> mode=0
     :: else ->
        atomic { c_m=(SS[i].state==DYING); c_g=SS[i].inc }
        atomic { f_r=SS[i].claiming }
        if
        :: f_r==0 -> mode=0
        :: else ->
           atomic { d_state=RR[f_r].state; d_claimer=RR[f_r].claimer; d_gen=RR[f_r].dgen }
#ifdef BREAK_DYING
           ok=1;
#else
           atomic { ok=(c_m && SS[i].state==DYING && SS[i].inc==c_g) }
#endif
           f_g=d_gen;
           if
           :: !ok -> mode=0
           :: ok && d_state==LIVE -> atomic { mode=COMPLETE; ret2=0 }
           :: ok && d_state==CLAIMED && d_claimer==i -> mode=LINKED
           :: else -> mode=0
           fi
        fi;
        atomic { c_m=0; c_g=0; ok=0 }
     fi
  :: mode==LINKED ->
#ifdef BREAK_LINKED
     CLOSED_RECORD(f_r, f_g); hit2=is_closed;
#endif
     atomic { b=BUCKET_OF(RR[f_r].name) }
     atomic { ok=(RR[f_r].gen==f_g); res=CHANGED; by_record=1 }
     do
     :: !ok || res!=CHANGED -> break
     :: else -> atomic { seen_s=B[b].seq; seen_h=B[b].head } walk()
     od;
     atomic { ok=(ok && res==FOUND && g_r==f_r && g_g==f_g); seen_s=0; seen_h=0; by_record=0; g_r=0; g_g=0; res=0 }
#ifdef BREAK_LINKED
     is_closed=hit2; hit2=0;
#else
     CLOSED_RECORD(f_r, f_g);
#endif
     if
     :: is_closed -> atomic { mode=COMPLETE; ret2=0 }
     :: !is_closed && ok ->
        atomic { if :: DIRECTORY_IS(f_r) -> RR[f_r].state=LIVE; RR[f_r].claimer=0 :: else fi; mode=0 }
     :: else -> atomic { mode=SET_FREE; ret3=0 }
     fi;
     atomic { is_closed=0; ok=0; d_state=0; d_claimer=0; d_gen=0 }
  od
}
#define LOCALS byte mode; byte ret2; byte ret3; byte b; byte seen_s; byte seen_h; byte next; byte steps; byte c_g; \
  byte c_m; byte c_n; bit hit; byte res; byte g_r; byte g_g; byte f_r; byte f_g; byte m_r; byte m_g; bit by_record; \
  byte before; byte b_g; byte b_n; byte k_seq; bit is_closed; bit ok; byte x; byte n; byte d_state; byte d_claimer; \
  byte d_gen; bit recycling; byte at; bit room; byte op; byte i; byte who; bit hit2; byte tries; byte y

proctype Session(byte me) {
  LOCALS; byte self=me; byte k=0; bit was; byte gone; bit joined=1;
again:
  {
    if
    :: !joined ->
       atomic { SS[me].inc++; SS[me].state=JOINING }
       SS[me].claiming=0;
       atomic { SS[me].state=ALIVE; joined=1 }
    :: else
    fi;
    do
    :: k<OPS_OF(me) ->
       atomic { op=OP_OF(me, k); n=NAME_OF(me, k); k++; was=(there[n]!=0); gone=absences[n]; mode=WALK }
       machine();
       atomic {
         assert(op!=LOOK || res==FOUND || !was || absences[n]!=gone);   /* one that was there all the while is found */
         assert(res!=FOUND || RR[g_r].gen!=g_g || RR[g_r].name==n);     /* what is found has that name */
         clear_machine(); was=0; gone=0
       }
    :: k==OPS_OF(me) -> atomic { done++; goto ended }
    od
  } unless { atomic { kill[me] -> kill[me]=0; dead[me]=1; clear_machine(); was=0; gone=0; joined=0 } };
  !dead[me] -> goto again;     /* the slot belongs to a new session now */
ended:
  skip
}

/* Buries the dead. That they are dead is proven: life.pml. */
proctype Burier(byte self) {
  LOCALS; byte me=0;
  do
  :: atomic {
       if :: done==N -> break :: dead[0] -> i=0 :: dead[N-1] -> i=N-1 fi;
       who=SS[i].inc
     }
     atomic { if :: dead[i] && SS[i].inc==who && SS[i].state!=EMPTY -> SS[i].state=DYING :: else fi; mode=RECOVER }
     machine();
     atomic {           /* its hold, through the word: control.pml */
       f_r=SS[i].held;
       if
       :: SS[i].state==DYING && SS[i].inc==who && f_r!=0 ->
          if
          :: RR[f_r].used==i+1 && RR[f_r].seq==SS[i].hseq ->
             RR[f_r].used=0; RR[f_r].seq++; newest[RR[f_r].name]=RR[f_r].seq
          :: else
          fi;
          SS[i].held=0; SS[i].hseq=0
       :: else
       fi
     }
     atomic {
       if :: SS[i].state==DYING && SS[i].inc==who -> SS[i].state=EMPTY; dead[i]=0 :: else fi;
       clear_machine(); i=0; who=0
     }
  od
}

proctype Killer() {
  byte k=0;
  do
  :: atomic { k<DEATHS && VICTIM(0) && !dead[0] && !kill[0] -> k++; kill[0]=1 }
  :: atomic { k<DEATHS && VICTIM(N-1) && !dead[N-1] && !kill[N-1] -> k++; kill[N-1]=1 }
  :: break
  od
}

init {
  byte r=0; byte count=0; byte name; byte next;
  atomic {
    do
    :: r<BORN ->
       r++; name=r-1;
       RR[r].state=LIVE; RR[r].dgen=1; RR[r].gen=1; RR[r].cgen=1; RR[r].seq=1; RR[r].name=name;
       RR[r].next=B[BUCKET_OF(name)].head; B[BUCKET_OF(name)].head=r; there[name]=r; life[name]=1
    :: else -> break
    od;
    for (r : 0 .. N-1) { run Session(r) }
    r=0; do :: r<BURIERS -> r++; run Burier(N+r-1) :: else -> break od;
    if :: DEATHS>0 -> run Killer() :: else fi;
    r=0; name=0
  }
  atomic { _nr_pr==1 -> skip }
  atomic {
    for (r : 1 .. RECORDS) {
      assert(RR[r].state==FREE || RR[r].state==LIVE);
      assert(RR[r].gen==(RR[r].state==LIVE -> RR[r].dgen : 0));
      if
      :: RR[r].state==LIVE -> count++; assert(there[RR[r].name]==r && life[RR[r].name]==RR[r].gen && !RR[r].used)
      :: else
      fi
    }
    for (name : 0 .. NAMES-1) {
      if :: there[name]!=0 -> assert(RR[there[name]].state==LIVE && RR[there[name]].name==name) :: else fi
    }
    for (r : 0 .. BUCKETS-1) {
      next=B[r].head;
      do
      :: next==0 -> break
      :: else -> assert(count>0 && !RR[next].marked && BUCKET_OF(RR[next].name)==r); count--; next=RR[next].next
      od
    }
    assert(count==0)
  }
}
