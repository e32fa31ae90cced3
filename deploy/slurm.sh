#!/bin/sh
# Made by deploy/make.py. Runs the tasks of v3.plan.json as an array of 16, then puts the output in place:
#   job=$(sbatch --parsable slurm.sh) && sbatch --dependency=afterok:$job --mem=320M --wrap 'tandem finalize v3.plan.json'
#SBATCH --job-name=tandem
#SBATCH --array=0-15
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem=320M
#SBATCH --requeue
tandem run-task v3.plan.json --of 16
code=$?
case $code in
  0) exit 0 ;;
  2 | 65 | 66 | 70 | 73 | 77 | 78) exit $code ;; # another try cannot help
esac
# A full disk, a signal, a task that another process is at: again, 3 times at most. What is done is not done again.
if [ "${SLURM_RESTART_COUNT:-0}" -lt 3 ]; then
  scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"
fi
exit $code
