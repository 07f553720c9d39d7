# bash completion for shmcoord; written by `shmcoord completion`.
_shmcoord() {
  local current=${COMP_WORDS[COMP_CWORD]} command= word words= i
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
        [[ $i -lt $COMP_CWORD ]] || return ;;
      -*) ;;
      *)
        case $command in
          '') command=$word ;;
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
    'lock acquire') words='--help --holder --shared --pid --ttl -w --wait -n --no-wait -E --conflict-exit-code --reason' ;;
    'lock release') words='--help --holder' ;;
    'lock heartbeat') words='--help --holder' ;;
    'lock renew') words='--help --holder --ttl' ;;
    'lock status') words='--help --holder' ;;
    'lock remove') words='--help --force' ;;
    'sem create') words='--help --capacity --per-session' ;;
    'sem acquire') words='--help --holder --weight --capacity --pid --ttl -w --wait -n --no-wait -E --conflict-exit-code --reason' ;;
    'sem release') words='--help --holder' ;;
    'sem heartbeat') words='--help --holder' ;;
    'sem renew') words='--help --holder --ttl' ;;
    'sem resize') words='--help --capacity' ;;
    'sem status') words='--help --holder' ;;
    'sem remove') words='--help --force' ;;
    'guard add') words='--help --condition --json-file --on-failure --wake' ;;
    'guard eval') words='--help --condition --json-file --timeout --directory --repository --issues --issues-command --sessions-command' ;;
    'guard wait') words='--help -w --wait -n --no-wait --recheck --timeout --directory --repository --issues --issues-command --sessions-command' ;;
    'guard list') words='--help' ;;
    'guard remove') words='--help' ;;
    'pipeline run') words='--help --grace --recheck --timeout --directory --repository --issues --issues-command --sessions-command' ;;
    'pipeline status') words='--help' ;;
    'pipeline resume') words='--help --grace --recheck --timeout --directory --repository --issues --issues-command --sessions-command' ;;
    'pipeline cancel') words='--help' ;;
    'pipeline remove') words='--help' ;;
    'inspect') words='--help --watch --graph --dot' ;;
    'events') words='--help --since --no-follow' ;;
    'reap') words='--help --once --interval --dry-run --no-reclaim --save --save-interval' ;;
    'force-release') words='--help --holder --reason' ;;
    'bench') words='--help --seconds' ;;
    'segment create') words='--help --mode --group --names --entries --sessions --journal' ;;
    'segment list') words='--help' ;;
    'segment info') words='--help' ;;
    'segment check') words='--help' ;;
    'segment remove') words='--help --force' ;;
    'snapshot save') words='--help' ;;
    'snapshot restore') words='--help' ;;
    'help') words='--help' ;;
    'completion') words='--help' ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -F _shmcoord shmcoord
