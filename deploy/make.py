"""A plan's tasks as a Slurm array and as a Kubernetes Indexed Job, from one table: `python3 deploy/make.py PLAN --shares 16 --out FOLDER`.

deploy/slurm.sh and deploy/kubernetes.yaml are what it makes of v3.plan.json; tests/deploy_test.py holds them to this file and runs their commands.
"""

import argparse
import json
import math
from pathlib import Path

# Exit codes after which another try cannot help (docs/scale.md); all others are tried again.
FINAL = {2: "wrong use", 65: "malformed input or plan", 66: "a file is missing", 70: "a mistake of tandem's", 73: "the output exists", 77: "unsafe input", 78: "wrong settings"}
RETRIES = 3

SLURM = """\
#!/bin/sh
# Made by deploy/make.py. Runs the tasks of {plan} as an array of {shares}, then puts the output in place:
#   job=$(sbatch --parsable slurm.sh) && sbatch --dependency=afterok:$job --mem={memory}M --wrap '{finalize}'
#SBATCH --job-name=tandem
#SBATCH --array=0-{last}
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem={memory}M
#SBATCH --requeue
{command}
code=$?
case $code in
  0) exit 0 ;;
  {final}) exit $code ;; # another try cannot help
esac
# A full disk, a signal, a task that another process is at: again, {retries} times at most. What is done is not done again.
if [ "${{SLURM_RESTART_COUNT:-0}}" -lt {retries} ]; then
  scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}"
fi
exit $code
"""

KUBERNETES = """\
# Made by deploy/make.py. Runs the tasks of {plan} as an Indexed Job of {shares}. When it is complete:
#   {finalize}
apiVersion: batch/v1
kind: Job
metadata:
  name: tandem
spec:
  completionMode: Indexed
  completions: {shares}
  parallelism: {shares}
  backoffLimitPerIndex: {retries}
  maxFailedIndexes: 0
  podFailurePolicy:
    rules:
      - action: FailIndex # another try cannot help
        onExitCodes:
          containerName: tandem
          operator: In
          values: [{codes}]
      - action: Ignore # drained nodes and pre-emption do not count as tries
        onPodConditions:
          - type: DisruptionTarget
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: tandem
          image: {image}
          command: {argv}
          workingDir: /models
          resources:
            requests: {{cpu: "1", memory: {memory}Mi}}
            limits: {{memory: {memory}Mi}}
          volumeMounts:
            - {{name: models, mountPath: /models}}
      volumes:
        - name: models
          persistentVolumeClaim: {{claimName: models}} # ReadWriteMany: every index writes into the one output
"""


def scripts(plan, shares, memory_mib, image):
    argv = ["tandem", "run-task", plan, "--of", str(shares)]
    words = {
        "plan": plan, "shares": shares, "last": shares - 1, "memory": memory_mib, "retries": RETRIES, "image": image,
        "command": " ".join(argv), "argv": json.dumps(argv), "finalize": f"tandem finalize {plan}",
        "final": " | ".join(map(str, FINAL)), "codes": ", ".join(map(str, FINAL)),
    }  # fmt: skip
    return {"slurm.sh": SLURM.format(**words), "kubernetes.yaml": KUBERNETES.format(**words)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plan", help="the file of tandem plan --out")
    parser.add_argument("--shares", type=int, default=16)
    parser.add_argument("--image", default="tandem:0.1.0")
    parser.add_argument("--out", type=Path, default=Path("."))
    arguments = parser.parse_args()
    memory = json.loads(Path(arguments.plan).read_text())["peak_memory"]
    for name, text in scripts(arguments.plan, arguments.shares, math.ceil(memory / 2**20), arguments.image).items():
        (arguments.out / name).write_text(text)


if __name__ == "__main__":
    main()
