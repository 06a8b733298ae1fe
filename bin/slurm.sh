#!/bin/bash
# One run as one Slurm job. Inference servers and the trainer are steps (srun); the control plane runs in this script, so
# that signals reach it. `rollcall launch slurm` fills in the words in double braces. To change anything, copy this
# file and give it with --template.
{{directives}}

{{settings}}

{{nodes}}

set -u
cd "$directory" || exit 1
mkdir -p "$logs"
say() { echo "$(date +%FT%T) $*"; }

# Known to this job only: they are in its environment, not in lists of processes.
secret() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
ROLLCALL_API_KEY=$(secret) ROLLCALL_TORCH_TOKEN=$(secret)
export ROLLCALL_API_KEY ROLLCALL_TORCH_TOKEN VLLM_API_KEY=$ROLLCALL_API_KEY

# Jobs on the same nodes take other ports.
port=$((20000 + SLURM_JOB_ID % 400 * 100))

# In a step: one server. Its number on the node says which of the node's GPUs it has.
serve() {
  if ((gpus_per_replica > 0)); then
    IFS=, read -ra gpus <<<"${CUDA_VISIBLE_DEVICES:-$(seq -s, 0 $((gpus_per_node - 1)))}"
    CUDA_VISIBLE_DEVICES=$(IFS=,; echo "${gpus[*]:$1*gpus_per_replica:gpus_per_replica}")
    export CUDA_VISIBLE_DEVICES
  fi
  exec env "${replica_environment[@]}" "${replica_command[@]}" --port "$2" \
    ${replica_key_flag:+"$replica_key_flag" "$ROLLCALL_API_KEY"}
}

# In a step: the trainer's ranks of one node. They outlive the warning that Slurm sends to all steps, because the
# control plane's last checkpoint needs them.
work() {
  trap '' TERM
  exec "${trainer_python[@]}" -m torch.distributed.run --nnodes="$SLURM_STEP_NUM_NODES" --node-rank="$SLURM_NODEID" \
    --nproc-per-node="$ranks_per_node" --master-addr="$1" --master-port="$2" --signals-to-handle=SIGINT \
    -m rollcall_torch --host 0.0.0.0 --port "$3" --seconds-to-connect=3600 "${trainer_words[@]}"
}
in_step=$(declare -f serve work
  declare -p gpus_per_node gpus_per_replica replica_environment replica_command replica_key_flag \
    ranks_per_node trainer_python trainer_words)

# At the start every node says what it sees of what its part needs: a file written here just now, because another disk may
# have the same path, the working directory, its program, and what its command names and this node has.
look() {
  local path answer
  for path; do
    answer="does not see"
    { [ -e "$path" ] || command -v "$path" >/dev/null; } && answer=sees
    echo "$(hostname -s) $answer $path"
  done
}
mark=$logs/written-by-job-$SLURM_JOB_ID
sight() {
  local part=$1 word said
  local -n nodes=$2 on=$3 words=$4
  local paths=("$mark" "$directory" "${words[0]}")
  for word in "${words[@]:1}"; do [[ $word = /* && -e $word ]] && paths+=("$word"); done
  hostname -s >"$mark"
  said=$(srun --overlap "${on[@]}" --nodes="${#nodes[@]}" --ntasks="${#nodes[@]}" --ntasks-per-node=1 \
    --nodelist="$(IFS=,; echo "${nodes[*]}")" bash -c "$(declare -f look); look ${paths[*]@Q}")
  say "nodes of the $part:"
  echo "$said"
  [[ $said = *"does not see"* ]] || return 0
  say "the job ends: every node must see these under the same path (docs/slurm.md)"
  exit 1
}
((replicas > 0)) && sight servers replica_hosts on_replica replica_command
((trainer_nodes > 0)) && sight trainer trainer_hosts on_trainer trainer_python

# A step that ends is started again at the same address, until the job ends.
keep() {
  local name=$1 pause=1 step
  shift
  trap 'kill "$step"; exit' TERM
  while :; do
    srun --overlap "$@" >>"$logs/$name.log" 2>&1 &
    step=$!
    wait "$step"
    say "$name ended with $?; it is started again in $pause s ($logs/$name.log)"
    sleep $pause
    ((pause < 60)) && ((pause *= 2))
  done
}
helpers=()

urls=()
for ((number = 0; number < replicas; number++)); do
  host=${replica_hosts[number / replicas_per_node]}
  at=$((number % replicas_per_node))
  urls+=("http://$host:$((port + 10 + at))")
  keep "server-$number" "${on_replica[@]}" --nodes=1 --ntasks=1 --nodelist="$host" \
    bash -c "$in_step; serve $at $((port + 10 + at))" &
  helpers+=($!)
done
if ((replicas > 0)); then
  control_command+=(servers.mode=server "servers.urls=[$(IFS=,; echo "${urls[*]}")]")
fi

if ((trainer_nodes > 0)); then
  keep trainer "${on_trainer[@]}" --nodes="$trainer_nodes" --ntasks="$trainer_nodes" --ntasks-per-node=1 \
    --nodelist="$(IFS=,; echo "${trainer_hosts[*]}")" --kill-on-bad-exit=1 \
    bash -c "$in_step; work ${trainer_hosts[0]} $port $((port + 1))" &
  helpers+=($!)
  control_command+=("trainer.options.url=tcp://${trainer_hosts[0]}:$((port + 1))")
fi

# Before it takes the nodes of a job that is preempted, Slurm warns its steps, but not this script: a step that only
# waits passes that on.
bell() {
  local step
  trap 'kill "$step"; exit' TERM
  srun --overlap --nodes=1 --ntasks=1 --nodelist="$(hostname -s)" bash -c 'trap "exit 0" TERM; sleep infinity & wait' \
    >>"$logs/bell.log" 2>&1 &
  step=$!
  wait "$step" && kill -USR1 $$
}
bell &
helpers+=($!)

# USR1: the time limit or a preemption is near. The run saves itself and the job goes back into the queue.
# TERM: somebody has ended or requeued the job. The run saves itself; what follows is Slurm's.
control='' again=''
ask() { [ -n "$control" ] && kill -TERM "$control"; }
trap 'again=yes; say "Slurm wants the nodes back: saving"; ask' USR1
trap 'again=""; say "asked to end: saving"; ask' TERM

for ((start = 1; ; start++)); do
  if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] || ((start > 1)); then
    [ -e "$run/options.json" ] && resume=--resume
  fi
  say "start $start on $(hostname -s), restart ${SLURM_RESTART_COUNT:-0} of job $SLURM_JOB_ID ${resume:-}"
  "${control_command[@]}" ${resume:+"$resume"} &
  control=$!
  while kill -0 "$control" 2>/dev/null; do
    wait "$control"
    code=$?
  done
  # 130 and 143: it was asked to stop. Above 128 otherwise: it was killed, such as for its memory.
  ((code > 128 && code != 130 && code != 143 && start <= 5)) || break
  say "the control plane ended with $code; it is started again"
done

say "the run ended with $code"
trap '' TERM USR1
kill "${helpers[@]}" 2>/dev/null
wait
if [ -n "$again" ] && ((code == 143)); then
  scontrol requeue "$SLURM_JOB_ID" && sleep 60 # Slurm ends this script
fi
exit "$code"
