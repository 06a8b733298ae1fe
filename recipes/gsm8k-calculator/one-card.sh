#!/usr/bin/env bash
# All that this recipe shows on one card, what tells most first: seed 1, where the time of an update goes, the comparison with
# TRL, 10,000 trajectories open at once, the control without the tool, seed 2, turns without a prefix cache. A stage that has ended is not done again, and none
# is begun that cannot end in time: after an interruption, start the script again.
#
#   MODEL=models/mended GSM8K=data/gsm8k OUT=runs/one-card MINUTES=26 bash recipes/gsm8k-calculator/one-card.sh
#
# VLLM          how vLLM is called (`vllm`; `python3 -m vllm.entrypoints.cli.main` where it is only on the path)
# PYTHON        Python with torch and transformers, for the bench of the update
# TRL_PYTHON    Python with trl, accelerate, datasets and vllm; without it TRL's side is left out
# FLAGS         more for `prove gsm8k-calculator`, such as `--own-words 0 --learning-rate 5e-6`
# SEED_MINUTES  of a seed until GRPO ends and is measured (17)
# STAGES        some of: seed-1 profile ours open trl control seed-2 turns
# TOY=1         everything in minutes on a CPU with a small MODEL: `rollcall serve` instead of vLLM, a few problems
set -u
: "${MODEL:?a model folder, after rollcall model mend}" "${GSM8K:?the folder with train.jsonl and test.jsonl}"
OUT=$(realpath -m "${OUT:-runs/one-card}")
MINUTES=${MINUTES:-26}
VLLM=${VLLM:-vllm}
PYTHON=${PYTHON:-python3}
TRL_PYTHON=${TRL_PYTHON:-}
STAGES=${STAGES:-seed-1 profile ours open trl control seed-2 turns}
TOY=${TOY:-}
read -ra flags <<< "${FLAGS:-}"
export GSM8K
began=$(date +%s)
mkdir -p "$OUT"
ports=(8100 8101 8102)
[ "$TOY" ] && ports=(8100)
urls=$(printf ',http://127.0.0.1:%s' "${ports[@]}")
urls=${urls:1}
say() { echo "$(($(date +%s) - began)) s  $*" | tee -a "$OUT/log"; }
left() { echo $((began + 60 * MINUTES - $(date +%s))); }

servers=()
serve() { # PORT; it becomes the server, so that its process is the one to end
  [ "$TOY" ] && exec node bin/rollcall.js serve --model "$MODEL" --port "$1" --threads 1
  # The memory of the cache in bytes: servers and trainer may start at the same time.
  exec env VLLM_SERVER_DEV_MODE=1 PYTHONPATH="python${PYTHONPATH:+:$PYTHONPATH}" $VLLM serve "$MODEL" --port "$1" \
    --max-model-len 2048 --kv-cache-memory-bytes 5368709120 --gpu-memory-utilization 0.08 \
    --logprobs-mode processed_logprobs --generation-config vllm \
    --worker-extension-cls rollcall_torch.vllm_extension.TakesWeights
}
start_servers() {
  [ ${#servers[@]} -gt 0 ] && return
  for port in "${ports[@]}"; do
    serve "$port" > "$OUT/server-$port.log" 2>&1 &
    servers+=($!)
  done
}
stop_servers() {
  for pid in "${servers[@]}"; do kill "$pid" 2> /dev/null; done
  for pid in "${servers[@]}"; do wait "$pid" 2> /dev/null; done
  servers=()
}
watch_card() {
  command -v nvidia-smi > /dev/null || return
  nvidia-smi --query-gpu=timestamp,utilization.gpu,memory.used --format=csv,noheader,nounits -l 1 > "$OUT/$1.card.csv" &
  watching=$!
}
about_card() {
  [ "${watching:-}" ] || return
  kill "$watching"; watching=
  awk -F', ' '{ busy += $2; if ($3 > most) most = $3; n++ } END { if (n) printf "card busy %.0f %%, most memory %.1f GB\n", busy / n, most / 953.7 }' \
    "$OUT/$1.card.csv"
}

# stage NAME SECONDS COMMAND…: SECONDS is the least that makes it worth while. It gets what is left, and Ctrl-C near the end.
stage() {
  local name=$1 least=$2 rest
  shift 2
  [[ " $STAGES " == *" $name "* ]] || return 0
  [ -e "$OUT/$name.done" ] && { say "$name: done before"; return 0; }
  rest=$(left)
  [ "$rest" -lt "$least" ] && { say "$name: left out, $rest s are left and it takes $least"; return 0; }
  say "$name begins, $rest s are left"
  watch_card "$name"
  timeout -s INT -k 90 "$rest" "$@" > "$OUT/$name.log" 2>&1
  local code=$?
  # 1 says that an aim was missed: its figures are there all the same. What failed has none, and is done again next time.
  tail -n 1 "$OUT/$name.log" | grep -qE '"figures":|"tokensPerSecond":' && touch "$OUT/$name.done"
  say "$name ended with $code; $(about_card "$name")"
  grep -E '^(reached|MISSED)' "$OUT/$name.log" | tee -a "$OUT/log"
  tail -n 1 "$OUT/$name.log" | cut -c -2000 | tee -a "$OUT/log"
}

run=(node --import ./bin/register.js scripts/run.ts) # npm run, where there is no npm
engine=(--url "$urls")
size=(--unseeded --recompute 0 --push --fused)
trl_size=(--steps 8)
shape=(--shape 1.5B --recompute 0)
if [ "$TOY" ]; then
  engine+=(--engine rollcall --device cpu)
  size=(--quick --demonstrations 4 --test 4 --tasks-per-step 2)
  export OMP_NUM_THREADS=1
  trl_size=(--quick)
  shape=(--model "$MODEL" --tokens 512 --prompt 32 --reply 16 --attempts 4 --batches 2 --steps 1)
fi
prove() { # NAME SECONDS MINUTES SEED FLAGS…
  local name=$1 least=$2 minutes=$3 seed=$4 runs=$OUT/runs-$1 imitated warm=()
  shift 4
  local most=$((($(left) - 75) / 60)) # what comes after GRPO needs its time too
  [ "$most" -lt "$minutes" ] && minutes=$most
  if [ ! -e "$OUT/$name.done" ]; then # of an attempt that broke off its imitation is kept, where that had ended
    rm -rf "$runs/seed-$seed"
    imitated=$(find "$runs/warm-start-$seed/checkpoints" -maxdepth 1 -name 'global_step_*[0-9]' 2> /dev/null | head -n 1)
    if [ "$imitated" ]; then warm=(--warm-start "$imitated"); else rm -rf "$runs/warm-start-$seed"; fi
  fi
  stage "$name" "$least" "${run[@]}" prove gsm8k-calculator --model "$MODEL" "${engine[@]}" "${size[@]}" --seed "$seed" \
    --runs "$runs" --most-minutes "$minutes" "${warm[@]}" "${flags[@]}" "$@"
}
bench_update() {
  local name=$1
  shift
  stage "$name" 45 env PYTHONPATH="python${PYTHONPATH:+:$PYTHONPATH}" "$PYTHON" -m rollcall_torch.bench "${shape[@]}" "$@"
}
needs_servers() { [[ " $STAGES " == *" $1 "* ]] && [ ! -e "$OUT/$1.done" ] && [ "$(left)" -ge "$2" ]; }
trap stop_servers EXIT

# The run ends its steps early enough to be measured twice (26 s) and to leave time for the two sides of the comparison.
needs_servers seed-1 300 && start_servers
prove seed-1 300 "${SEED_MINUTES:-17}" 1
if [[ " $STAGES " == *" profile "* ]]; then
  STAGES="$STAGES update update-fused"
  bench_update update --profile
  [ "$TOY" ] || bench_update update-fused --fused --profile
fi
{ needs_servers ours 60 || needs_servers open 60; } && start_servers
stage ours 60 "${run[@]}" bench trl --side ours --model "$MODEL" "${engine[@]}" "${trl_size[@]}" --runs "$OUT/trl" \
  $([ "$TOY" ] || echo --unseeded --push --fused)
[ "$TOY" ] || stage open 60 "${run[@]}" bench open-trajectories --url http://127.0.0.1:8100 --model "$MODEL" --minutes 2
if [ "$TRL_PYTHON" ]; then
  stop_servers # TRL needs the card whole
  stage trl 150 "${run[@]}" bench trl --side trl --model "$MODEL" --python "$TRL_PYTHON" "${trl_size[@]}" --runs "$OUT/trl" \
    $([ "$TOY" ] && echo --generation transformers)
fi
needs_servers control 300 && start_servers
prove control 300 "${CONTROL_MINUTES:-8}" 1 --without-tool
needs_servers seed-2 300 && start_servers
prove seed-2 300 "${SEED_MINUTES:-17}" 2 --skip-before
if [ ! "$TOY" ]; then
  needs_servers turns 240 && start_servers
  stage turns 240 "${run[@]}" bench rollout --url http://127.0.0.1:8100 --engine vllm --model "$MODEL" --cache off --turns 3,5 \
    --prompt-tokens 256 --reply-tokens 64 --result-tokens 64 --max-batch 256 --minutes 2
fi
say "ended, $(left) s are left"
