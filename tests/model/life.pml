/*
 * Model of who is alive, as src/process/{liveness,byte_lock,participant,keeper,recovery}.{hpp,cpp} have it: one session
 * slot with its life word and its two lock bytes, processes that join in it, hold, leave or are killed at any step,
 * buriers (any process may be one) that judge, bury and fall asleep in between, and the slot's next owners.
 *
 * The kernel's part: a process has a keeper and a main thread. Killed, each goes in its own time: the keeper's end sets
 * OWNER_DIED if the life word holds its thread id; the main thread may still be inside a system call, under its lock,
 * until it ends; the byte is free when both have ended. A command may have inherited the second byte, and works on
 * under the lock after its parent's end. Thread ids of two PID namespaces may be equal.
 *
 * Asserted: nobody is given the lock while somebody else's process or command may still work under it; a session is
 * buried only when all of it has ended; of a session that is alive the life word is its own, so that its death will be
 * noticed; at the end the slot is free, the chunk and the lock are nobody's: nothing is left of the dead.
 *
 * Sequentially consistent. The chunk stands for all chunks, the lock for the entry in it and its control word (that
 * protocol is control.pml's). Not modelled: the ring and futexes (a burier looks whenever it likes), fencing,
 * heartbeats (without a life word a silence proves nothing here), earlier boots, incarnations that wrap.
 *
 * Each BREAK_... takes one rule away.
 */
#ifndef N
#define N 2              /* processes */
#endif
#ifndef JOINS
#define JOINS 1          /* sessions of a process that lives */
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef VICTIM
#define VICTIM(i) true
#endif
#ifndef BURIERS
#define BURIERS 1
#endif
#ifndef LOOKS
#define LOOKS 1          /* of each burier */
#endif
#ifndef LOOK_WHEN
#define LOOK_WHEN true
#endif
#ifndef CLOSES
#define CLOSES 0         /* how often a process closes another descriptor of the file, and so loses its byte */
#endif
#ifndef CLOSE_WHEN
#define CLOSE_WHEN true
#endif
#ifndef COMMAND
#define COMMAND(i) false /* a command of that process inherits the second byte */
#endif
#ifndef LIFE_WORD
#define LIFE_WORD true   /* false: set_robust_list is refused */
#endif
#ifndef TID
#define TID(i) 1         /* equal: the worst case */
#endif

#define INCARNATIONS (N*JOINS+2)

#define FREE 0           /* SlotState */
#define JOINING 1
#define ALIVE 2
#define DYING 3

#define DIED 100         /* FUTEX_OWNER_DIED, no thread id */

#define ALIVE_ 0         /* Life */
#define DYING_ 1
#define DEAD_ 2

byte state; byte inc;    /* id word of the slot */
byte life;               /* life word */
byte byte1 = N;          /* who has the first byte locked; N: nobody */
byte byte2;              /* commands that have the second */
bit no_life_word;        /* SlotFlag */
byte chunk;              /* incarnation of the owner, 0: nobody's */
byte lock_;              /* incarnation of the holder, 0: free */
byte described = N;            /* the process that described itself in the slot */

bit kill[N];
bit crash;               /* a burier is to stop for ever */
bit doomed[N];           /* killed; its threads end one after the other */
bit main_[N];            /* the threads run */
bit keeper[N];
bit linked[N];           /* the keeper's robust list leads to the life word */
bit closed[N];           /* it lost its byte: the confirmation is not what it should be */
byte session[N];         /* incarnation that the process has joined as, 0: none */
byte command;            /* incarnation whose command works under the lock */
byte working[N];         /* incarnation as which the process may still do something under the lock */
byte owner[INCARNATIONS];     /* the process of an incarnation */
byte ended;
byte looking;            /* buriers that are at it */

#define ID_IS(s, x) (state==s && inc==x)
#define ENDED(i) (i==N || (!main_[i%N] && !keeper[i%N]))       /* every task is exiting or gone */
#define WORKS(x) (command==x || working[0]==x || working[N-1]==x || (N>2 && working[1]==x))

/* probe_slot() */
#define BYTES_FREE (byte1==N && byte2==0)

/* life_of(slot, x), by somebody who does not own the slot. */
inline life_of(thorough) {
  do
  :: atomic { r_state=state; r_inc=inc }
     if
     :: r_inc!=x || r_state==FREE || r_state==DYING -> verdict=DEAD_
     :: else ->
        if
        :: r_state==JOINING -> atomic { verdict=(BYTES_FREE -> DEAD_ : ALIVE_) }
        :: else ->
           flag=no_life_word;
           if
           :: flag ->
              atomic { free_=BYTES_FREE }
              if
              :: !free_ -> verdict=ALIVE_
              :: else -> atomic { verdict=(ENDED(described) -> DEAD_ : ALIVE_) }
              fi
           :: else ->
              l=life;
              if
#ifdef BREAK_NOTICE
              :: true ->
#else
              :: l==DIED ->
#endif
#ifdef BREAK_CONFIRM
                 verdict=DEAD_
#else
                 atomic { free_=BYTES_FREE }
                 if
                 :: free_ -> verdict=DEAD_
                 :: !free_ && !(thorough) -> verdict=DYING_
                 :: else -> atomic { free_=ENDED(described) }
#ifndef BREAK_COMMAND
                    atomic { free_=(free_ && byte2==0) }
#endif
                    verdict=(free_ -> DEAD_ : DYING_)
                 fi
#endif
              :: else ->
                 if
                 :: !(thorough) -> verdict=ALIVE_
                 :: else ->
                    atomic { free_=BYTES_FREE }
                    if
                    :: free_ -> atomic { verdict=(ENDED(described) -> DEAD_ : ALIVE_) }
                    :: else -> verdict=ALIVE_
                    fi
                 fi
              fi
           fi
        fi
     fi;
     atomic { if :: ID_IS(r_state, r_inc) -> break :: else fi }
  od;
  atomic { l=0; free_=0; flag=0 }
}

/* bury_entries(x): the hold out of its word, then the chunk. */
inline bury_entries() {
  atomic { flag=(chunk==x) }
  if
  :: flag ->
     atomic {
       if
       :: lock_==x -> lock_=0; assert(!WORKS(x))    /* nobody is given it while somebody may still work under it */
       :: else
       fi
     }
     atomic { if :: chunk==x -> chunk=0 :: else fi }
  :: else
  fi;
  flag=0
}

/* finish_burial(x): anybody may, several times. */
inline finish_burial() {
  atomic { flag=ID_IS(DYING, x) }
  if
  :: flag ->
#ifdef BREAK_ORDER
     atomic { if :: ID_IS(DYING, x) -> state=FREE :: else fi }
     bury_entries()
#else
     bury_entries();
     atomic { if :: ID_IS(DYING, x) -> state=FREE :: else fi }
#endif
  :: else
  fi;
  flag=0
}

/* bury(x) */
inline bury(thorough) {
  do
  :: atomic { b_state=state; b_inc=inc }
     if
     :: b_inc!=x || b_state==FREE -> break
     :: b_inc==x && b_state==DYING -> finish_burial(); break
     :: else ->
        life_of(thorough);
        if
        :: verdict!=DEAD_ -> break
        :: else ->
           atomic {
             if
             :: ID_IS(b_state, x) ->
                state=DYING;
                y=owner[x];
                /* Buried is only who has ended; but a joiner that lost its byte must join again. */
                assert(command!=x && (session[y]!=x || ENDED(y) || (b_state==JOINING && closed[y])));
                y=0
             :: else
             fi
           }
        fi
     fi
  od;
  atomic { b_state=0; b_inc=0; r_state=0; r_inc=0; verdict=0 }
}
#define LOCALS byte x; byte r_state; byte r_inc; byte b_state; byte b_inc; byte verdict; byte l; bit flag; bit free_; \
  byte y

/* The kernel ends the keeper: the word is its own, or it is left alone. */
inline end_keeper(i) {
  if
  :: keeper[i] && linked[i] ->
     assert(!ID_IS(ALIVE, session[i]) || life==TID(i) || closed[i]);       /* the death will be noticed */
     if :: life==TID(i) -> life=DIED :: else fi
  :: else
  fi;
  keeper[i]=0; linked[i]=0
}

proctype Process(byte me) {
  LOCALS; byte k=0; bit ok;
  {
    do
    :: k==JOINS -> break
    :: k<JOINS ->
       /* try_claim() */
       atomic { r_state=state; r_inc=inc }
       if
       :: r_state!=FREE ->
          x=r_inc; bury(true);
          atomic { r_state=state; r_inc=inc }
       :: else
       fi;
       x=r_inc; ok=0;
       if
       :: r_state==FREE ->
#ifndef BREAK_CLAIM
          atomic { if :: byte1==N -> byte1=me; ok=1 :: else fi }
          if :: ok -> atomic { if :: byte2!=0 -> byte1=N; ok=0 :: else fi } :: else fi;
#else
          ok=1;
#endif
          if
          :: ok ->
             atomic {
               if
               :: ID_IS(FREE, x) ->
                  state=JOINING;
#ifndef BREAK_INCARNATION
                  inc++;
#endif
                  x=inc; session[me]=x; owner[x]=me
               :: else -> ok=0
               fi
             }
             if :: !ok -> atomic { if :: byte1==me -> byte1=N :: else fi } :: else fi
          :: else
          fi
       :: else
       fi;
       atomic { r_state=0; r_inc=0 }
#ifdef BREAK_CLAIM
       if
       :: ok -> atomic { byte1==N && byte2==0 -> byte1=me }
       :: else
       fi;
#endif
       if
       :: ok ->
          /* become_alive() */
#ifndef BREAK_LIFE
          life=0;
#endif
          no_life_word=0;
          described=me;
          keeper[me]=1;
#ifdef BREAK_LIFE
          atomic { if :: ID_IS(JOINING, x) -> state=ALIVE :: else -> ok=0 fi }
#endif
          if
          :: LIFE_WORD -> linked[me]=1; life=TID(me)
          :: else -> no_life_word=1
          fi;
#ifndef BREAK_LIFE
          atomic { if :: ID_IS(JOINING, x) -> state=ALIVE :: else -> ok=0 fi }
#endif
          if
          :: ok ->
             atomic { if :: chunk==0 -> chunk=x :: else -> assert(false) fi }     /* its last owner left nothing */
             atomic { flag=ID_IS(ALIVE, x) }
             if
             :: flag ->
                atomic { if :: lock_==0 -> lock_=x; working[me]=x :: else -> assert(false) fi }
                if
                :: COMMAND(me) ->
                   atomic { byte2=x }
                   atomic { command=x }
                   atomic { command==0 }                   /* its tree has ended */
                :: else
                fi;
                working[me]=0;
                atomic { if :: lock_==x -> lock_=0 :: else fi }
             :: else
             fi;
             flag=0
          :: else
          fi;
          /* leave() */
          bury_entries();
#ifndef BREAK_LEAVE
          atomic { end_keeper(me); session[me]=0 }
#endif
          atomic { if :: ID_IS(ALIVE, x) || ID_IS(JOINING, x) -> state=DYING :: else fi; session[me]=0 }
          finish_burial();
          atomic { if :: byte1==me -> byte1=N :: else fi; closed[me]=0; k++; x=0; ok=0 }
#ifdef BREAK_LEAVE
          atomic { end_keeper(me) }
#endif
       :: else -> x=0
       fi
    od;
    atomic { main_[me]=0; ended++; goto over }
  } unless {
    /* Killed: what it was doing at this moment may still happen, until its main thread has ended too. */
    atomic {
      kill[me] -> kill[me]=0; doomed[me]=1;
      x=0; r_state=0; r_inc=0; b_state=0; b_inc=0; verdict=0; l=0; flag=0; free_=0; ok=0; y=0
    }
  };
  do
  :: atomic { keeper[me] -> end_keeper(me) }
  :: atomic { main_[me] -> main_[me]=0; working[me]=0 }
  :: atomic { ENDED(me) -> if :: byte1==me -> byte1=N :: else fi; session[me]=0; ended++; break }
  od;
over:
  skip
}

proctype Command() {
  do
  :: atomic { command!=0 -> command=0; byte2=0 }
  :: atomic { byte2!=0 && command==0 && ENDED(owner[byte2]) -> byte2=0 }   /* it was killed before the command began */
  :: atomic { ended==N && byte2==0 -> break }
  od
}

proctype Burier(bit mortal) {
  LOCALS; byte k=0;
  {
    do
    :: atomic { k<LOOKS && LOOK_WHEN -> k++; x=inc }
       if :: bury(true) :: bury(false) fi; x=0
    :: atomic { mortal || ended==N -> break }
    od;
    if
    :: !mortal -> atomic { ended==N && byte2==0 && looking==1 -> x=inc } bury(true); assert(state==FREE)
    :: else
    fi
  } unless { atomic { mortal && crash } };
  atomic { looking-- }
}

proctype Killer() {
  byte k=0;
  do
  :: atomic { k<DEATHS && VICTIM(0) && main_[0] && !kill[0] && !doomed[0] -> k++; kill[0]=1 }
#if N>1
  :: atomic { k<DEATHS && VICTIM(N-1) && main_[N-1] && !kill[N-1] && !doomed[N-1] -> k++; kill[N-1]=1 }
#endif
  :: break
  od
}

/* Some code of a process opens and closes the file, and so drops its record locks. */
proctype Closer() {
  byte k=0;
  do
  :: atomic { k<CLOSES && byte1!=N && CLOSE_WHEN -> k++; closed[byte1]=1; byte1=N }
  :: break
  od
}

init {
  byte i;
  atomic {
    for (i : 0 .. N-1) { main_[i]=1; run Process(i) }
    i=0; do :: i<BURIERS -> run Burier(i>0); looking++; i++ :: else -> break od;
    if :: BURIERS>1 -> crash=0 :: else fi;
    if :: COMMAND(0) || COMMAND(N-1) -> run Command() :: else fi;
    if :: DEATHS>0 -> run Killer() :: else fi;
    if :: CLOSES>0 -> run Closer() :: else fi;
    i=0
  }
  if :: BURIERS>1 -> crash=1 :: true fi;
  atomic { _nr_pr==1 -> assert(state==FREE && chunk==0 && lock_==0 && byte1==N && byte2==0) }
}
