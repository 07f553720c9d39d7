# bash completion for shmcoord; written by `shmcoord completion`.
_shmcoord() {
  local current=${COMP_WORDS[COMP_CWORD]} command= help= word words= kinds= files= name i
  local -a globals=()
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    case $word in
      --) # The rest is the command of `run`.
        if [[ $i -eq $((COMP_CWORD - 1)) ]]; then
          mapfile -t COMPREPLY < <(compgen -c -- "$current")
        else
          mapfile -t COMPREPLY < <(compgen -f -- "$current")
        fi
        return ;;
      --capacity|--condition|--directory|--entries|--grace|--group|--holder|--interval|--issues|--issues-command|--json-file|--mode|--names|--on-failure|--per-session|--pid|--reason|--recheck|--repository|--save|--save-interval|--seconds|--sessions|--sessions-command|--shared|--since|--timeout|--trust|--ttl|--wake|--weight|-E|--conflict-exit-code|-S|--sem|-l|--lock|-s|--segment|-w|--wait)
        i=$((i + 1))
        [[ ${COMP_WORDS[i]} != = || $i -eq $COMP_CWORD ]] || i=$((i + 1)) # --option=value is three words.
        if [[ $i -ge $COMP_CWORD ]]; then
          case $word in
            -l|--lock|--shared) kinds=lock ;;
            -S|--sem) kinds=semaphore ;;
            *) return ;;
          esac
          [[ $current != = ]] || current=
          _shmcoord_names
          return
        fi
        case $word in
          -s|--segment|--trust) globals+=("$word" "${COMP_WORDS[i]}") ;;
        esac ;;
      -*) ;;
      *)
        case $command in
          '') if [[ -z $help && $word == help ]]; then help=1; else command=$word; fi ;;
          guard|lock|pipeline|segment|sem|snapshot) command="$command $word" ;;
        esac ;;
    esac
  done
  case $command in
    '') words='--help --version -s --segment --trust --json run lock sem guard pipeline inspect events reap force-release bench segment snapshot help completion' ;;
    guard) words='add eval wait list remove' ;;
    lock) words='acquire release heartbeat renew status remove' ;;
    pipeline) words='run status resume cancel remove' ;;
    segment) words='create list info check remove' ;;
    sem) words='create acquire release heartbeat renew resize status remove' ;;
    snapshot) words='save restore' ;;
    'run') words='--help -l --lock --shared -S --sem -w --wait -n --no-wait --ttl --reason --holder --grace -E --conflict-exit-code --no-wait-tree' ;;
    'lock acquire') words='--help --holder --shared --pid --ttl -w --wait -n --no-wait -E --conflict-exit-code --reason' kinds='lock' ;;
    'lock release') words='--help --holder' kinds='lock' ;;
    'lock heartbeat') words='--help --holder' kinds='lock' ;;
    'lock renew') words='--help --holder --ttl' kinds='lock' ;;
    'lock status') words='--help --holder' kinds='lock' ;;
    'lock remove') words='--help --force' kinds='lock' ;;
    'sem create') words='--help --capacity --per-session' ;;
    'sem acquire') words='--help --holder --weight --capacity --pid --ttl -w --wait -n --no-wait -E --conflict-exit-code --reason' kinds='semaphore' ;;
    'sem release') words='--help --holder' kinds='semaphore' ;;
    'sem heartbeat') words='--help --holder' kinds='semaphore' ;;
    'sem renew') words='--help --holder --ttl' kinds='semaphore' ;;
    'sem resize') words='--help --capacity' kinds='semaphore' ;;
    'sem status') words='--help --holder' kinds='semaphore' ;;
    'sem remove') words='--help --force' kinds='semaphore' ;;
    'guard add') words='--help --condition --json-file --on-failure --wake' ;;
    'guard eval') words='--help --condition --json-file --timeout --directory --repository --issues --issues-command --sessions-command' kinds='guard' ;;
    'guard wait') words='--help -w --wait -n --no-wait --recheck --timeout --directory --repository --issues --issues-command --sessions-command' kinds='guard' ;;
    'guard list') words='--help' ;;
    'guard remove') words='--help' kinds='guard' ;;
    'pipeline run') words='--help --grace --recheck --timeout --directory --repository --issues --issues-command --sessions-command' files=1 ;;
    'pipeline status') words='--help' kinds='pipeline' ;;
    'pipeline resume') words='--help --grace --recheck --timeout --directory --repository --issues --issues-command --sessions-command' kinds='pipeline' ;;
    'pipeline cancel') words='--help' kinds='pipeline' ;;
    'pipeline remove') words='--help' kinds='pipeline' ;;
    'inspect') words='--help --watch --graph --dot' kinds='lock semaphore guard pipeline' ;;
    'events') words='--help --since --no-follow' ;;
    'reap') words='--help --once --interval --dry-run --no-reclaim --save --save-interval' ;;
    'force-release') words='--help --holder --reason' kinds='lock semaphore' ;;
    'bench') words='--help --seconds' ;;
    'segment create') words='--help --mode --group --names --entries --sessions --journal' ;;
    'segment list') words='--help' ;;
    'segment info') words='--help' ;;
    'segment check') words='--help' ;;
    'segment remove') words='--help --force' ;;
    'snapshot save') words='--help' files=1 ;;
    'snapshot restore') words='--help' files=1 ;;
    'help') words='--help' ;;
    'completion') words='--help' ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  if [[ -n $help ]]; then # Of commands; they have no options there.
    for i in "${!COMPREPLY[@]}"; do [[ ${COMPREPLY[i]} != -* ]] || unset "COMPREPLY[i]"; done
    return
  fi
  [[ $current != -* ]] || return
  _shmcoord_names
  if [[ -n $files ]]; then
    compopt -o filenames 2>/dev/null
    while IFS= read -r name; do COMPREPLY+=("$name"); done < <(compgen -f -- "$current")
  fi
}
# Of these kinds, of the segment that the line is about.
_shmcoord_names() {
  [[ -n $kinds ]] || return
  while IFS= read -r name; do
    printf -v name %q "$name"
    [[ $name != "$current"* ]] || COMPREPLY+=("$name")
  done < <("${COMP_WORDS[0]}" "${globals[@]}" names $kinds 2>/dev/null)
}
complete -F _shmcoord shmcoord
