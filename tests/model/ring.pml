/*
 * Model of the ring of keepers, as keep(), look_around(), watch() and wait_until_watched() of
 * src/process/session_slots.hpp have it: N slots in a circle; the keeper of each session buries the dead on the way to
 * the next one that is alive, and sleeps on its own signal and on that one's life word. Processes join, are killed at
 * any step, and others join in their slots.
 *
 * The kernel's part: the end of a process sets OWNER_DIED in its life word and wakes one of those who sleep on it. A
 * sleep begins only if the words still are as they were read.
 *
 * Asserted: nobody looks at the clock, and still, when nothing moves any more, every session that had completed its
 * join and then died is buried, unless nobody is left; a keeper that was told to stop has stopped.
 *
 * Sequentially consistent. A death is its own proof here (life.pml has the confirmation), a burial two steps that
 * anybody may do. With two deaths at once and two watchers of one word (a join moves a watch) the one that the kernel
 * wakes may be killed before it tells the other: there the look of each second is all that remains, so DEATHS is 1
 * where somebody joins.
 *
 * Each BREAK_... takes one rule away.
 */
#ifndef N
#define N 3
#endif
#ifndef JOINS
#define JOINS 1          /* processes that join late, each in the first free slot */
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef LATE
#define LATE 1           /* slots that are free at the beginning */
#endif
#ifndef STOPS
#define STOPS 0          /* keepers that are told to stop; slot 0 first */
#endif

#define PROCESSES (N+JOINS)
#define NONE N
#define ANYBODY 255

#define FREE 0
#define JOINING 1
#define ALIVE 2
#define DYING 3

#define LIFE(p) (2*(p)+2)          /* of process p; the lowest bit is OWNER_DIED */
#define DIED(w) ((w)&1)

byte state[N];
byte life[N];
byte owner[N];                     /* process of the slot */
byte signal[N];
byte watching[N];                  /* slot + 1 */

byte slot[PROCESSES];              /* of a process */
bit dead[PROCESSES];
bit keeping[PROCESSES];            /* its keeper runs its rounds */
bit joined[PROCESSES];             /* its join is complete */
bit stop[PROCESSES];
bit stopped[PROCESSES];
bit asleep[PROCESSES];             /* its keeper */
byte on_life[PROCESSES];           /* slot whose life word it sleeps on */
bit waits[PROCESSES];              /* its main thread, in wait_until_watched() */

#define SLEEPS_ON(v, s) (v<PROCESSES && asleep[(v)%PROCESSES] && on_life[(v)%PROCESSES]==s && !dead[(v)%PROCESSES])
#define more_sleepers(v, s) (SLEEPS_ON(v+1, s) || SLEEPS_ON(v+2, s) || SLEEPS_ON(v+3, s))
#define RING_BITS 15               /* signals count in a circle: longer than anybody sleeps over */

inline wake_signal(s) {
  atomic {
    w=0;
    do
    :: w<PROCESSES ->
       if :: slot[w]==s && asleep[w] -> asleep[w]=0 :: else fi;
       if :: slot[w]==s && waits[w] -> waits[w]=0 :: else fi;
       w++
    :: else -> break
    od;
    w=0
  }
}
inline call(s) {
  atomic { signal[s]=(signal[s]+1)&RING_BITS }
  wake_signal(s)
}
inline wake_all(s) {
  atomic {
    w=0;
    do
    :: w<PROCESSES -> if :: asleep[w] && on_life[w]==s -> asleep[w]=0 :: else fi; w++
    :: else -> break
    od;
    w=0
  }
}

/* The kernel's end of process x: its robust list, one wake. */
inline end_life(x) {
  atomic {
    if :: owner[slot[x]]==x && life[slot[x]]==LIFE(x) -> life[slot[x]]=life[slot[x]]|1 :: else fi;
    w=0;
    do
    :: w<PROCESSES && asleep[w] && on_life[w]==slot[x] && !dead[w] -> asleep[w]=0; break     /* any of them */
    :: w<PROCESSES && !(asleep[w] && on_life[w]==slot[x] && !dead[w]) -> w++
    :: w<PROCESSES && more_sleepers(w, slot[x]) -> w++
    :: w==PROCESSES -> break
    od;
    w=0
  }
}

/* Of the death in slot s that l was read of. */
inline bury(s, l) {
#ifndef BREAK_BURY
  atomic { if :: life[s]==l && state[s]==ALIVE -> state[s]=DYING :: life[s]==l && state[s]==JOINING -> state[s]=DYING :: else fi }
  wake_all(s);
  atomic { if :: life[s]==l && state[s]==DYING -> state[s]=FREE :: else fi }
#else
  skip
#endif
}

/* The next one that is alive, from s on; the dead on the way are buried. */
inline look_around() {
  next=NONE; seen=0; n=1;
  do
  :: n==N -> break
  :: n<N ->
     s=(slot[me]+n)%N;
     if
     :: state[s]==FREE -> skip
     :: atomic { state[s]!=FREE -> l=life[s]; st=state[s] }
        if
        :: DIED(l) ->
           wake_all(s);
           bury(s, l)
        :: !DIED(l) && st==ALIVE -> next=s; seen=l; break
        :: else
        fi
     fi;
     n++
  od;
  atomic { n=0; s=0; l=0; st=0 }
}

proctype Keeper(byte me) {
  byte n=0; byte s=0; byte l=0; byte next=NONE; byte seen=0; byte sig=0; byte w=0; byte st=0;
  {
    skip;
end_none:
    (keeping[me]);
    do
    ::
#ifdef BREAK_STOP
       if :: stop[me] -> break :: else fi;
       sig=signal[slot[me]];
#else
       sig=signal[slot[me]];
       if :: stop[me] -> break :: else fi;
#endif
       look_around();
       if
       :: watching[slot[me]]==(next==NONE->0:next+1) -> skip
       :: else ->
          watching[slot[me]]=(next==NONE->0:next+1);
          if :: next!=NONE -> call(next) :: else fi
       fi;
       atomic {
         if
#ifdef BREAK_COMPARE
         :: signal[slot[me]]==sig ->
#else
         :: signal[slot[me]]==sig && (next==NONE || life[next]==seen) ->
#endif
            asleep[me]=1; on_life[me]=next
         :: else
         fi;
         next=NONE; seen=0; sig=0
       }
end_asleep:
       atomic { !asleep[me] -> on_life[me]=NONE }
    od;
    /* It ends with its node linked; then its main thread buries what is left. */
    keeping[me]=0;
    end_life(me);
    l=LIFE(me)|1;
    bury(slot[me], l);
    atomic { stopped[me]=1; l=0 }
  } unless { atomic { dead[me] -> asleep[me]=0; on_life[me]=NONE; n=0; s=0; l=0; next=NONE; seen=0; sig=0; w=0; st=0 } };
  skip
}

/* The main thread of one that joins late. */
proctype Joiner(byte me) {
  byte n=0; byte p=0; byte sig=0; byte w=0; byte told=0; bit found=0;
  {
    skip;
end_full:
    atomic {
      state[0]==FREE || state[1]==FREE || state[N-1]==FREE ->
      do :: state[n]==FREE -> break :: else -> n++ od;
      state[n]=JOINING; slot[me]=n; owner[n]=me; n=0
    }
    life[slot[me]]=0;
    wake_all(slot[me]);
    watching[slot[me]]=0;
    life[slot[me]]=LIFE(me);
    state[slot[me]]=ALIVE;
    keeping[me]=1;
#ifndef BREAK_JOIN
    told=NONE;
    do
    ::
       sig=signal[slot[me]];
       /* predecessor() */
       n=1; found=0; p=slot[me];
       do
       :: n<N && !found ->
          p=(slot[me]+N-n)%N;
          if :: state[p]==ALIVE && !DIED(life[p]) -> found=1 :: else -> n++ fi
       :: else -> break
       od;
       if
       :: !found -> break
       :: found && watching[p]==slot[me]+1 -> break
       :: else
       fi;
       if
       :: told!=p -> told=p; call(p)
       :: else
       fi;
       atomic { if :: signal[slot[me]]==sig -> waits[me]=1 :: else fi; sig=0; n=0; found=0 }
       if
       :: atomic { !waits[me] }
       :: atomic { timeout -> waits[me]=0 }      /* looks again after 5 ms: the predecessor may have been killed */
       fi
    od;
#endif
    atomic { joined[me]=1; n=0; p=0; sig=0; told=0; found=0 }
  } unless { atomic { dead[me] -> waits[me]=0; n=0; p=0; sig=0; told=0; found=0; w=0 } };
  skip
}

/* Ends a process: the keeper's robust list, one wake. */
proctype Killer() {
  byte k=0; byte i=0; byte w=0;
  do
  :: k<DEATHS ->
     atomic {
       if
       :: slot[0]!=NONE && !dead[0] && joined[0] -> i=0
       :: slot[1]!=NONE && !dead[1] && joined[1] -> i=1
#if PROCESSES>2
       :: slot[2]!=NONE && !dead[2] && joined[2] -> i=2
#endif
#if PROCESSES>3
       :: slot[3]!=NONE && !dead[3] && joined[3] -> i=3
#endif
       fi;
       dead[i]=1; k++
     }
     end_life(i);
     i=0
  :: break
  od
}

proctype Stopper() {
  byte w=0; byte i=0;
  do
  :: i<STOPS && !dead[i] -> stop[i]=1; call(slot[i]); i++
  :: i<STOPS && dead[i] -> i++
  :: i==STOPS -> break
  od
}

#define SOMEBODY_KEEPS (keeping[0]&&!dead[0] || keeping[1]&&!dead[1] || keeping[PROCESSES-1]&&!dead[PROCESSES-1] || keeping[PROCESSES-2]&&!dead[PROCESSES-2])

/* When nothing moves any more. */
proctype Judge() {
  byte i=0;
  atomic {
    timeout ->
    do
    :: i<PROCESSES ->
       assert(!stop[i] || dead[i] || stopped[i]);
       assert(!dead[i] || slot[i]==NONE || !SOMEBODY_KEEPS || owner[slot[i]]!=i || state[slot[i]]==FREE);
       i++
    :: else -> break
    od
  }
}

init {
  byte i;
  atomic {
    for (i : 0 .. PROCESSES-1) { slot[i]=NONE; on_life[i]=NONE }
    for (i : 0 .. N-1) {
      owner[i]=ANYBODY;
      if
      :: i<N-LATE ->
         state[i]=ALIVE; life[i]=LIFE(i); owner[i]=i; slot[i]=i; keeping[i]=1; joined[i]=1
      :: else
      fi
    }
    for (i : 0 .. PROCESSES-1) {
      if
      :: i<N-LATE -> run Keeper(i)
      :: i>=N -> run Keeper(i); run Joiner(i)
      :: else
      fi
    }
    if :: DEATHS>0 -> run Killer() :: else fi;
    if :: STOPS>0 -> run Stopper() :: else fi;
    run Judge();
    i=0
  }
}
