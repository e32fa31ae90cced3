"""The commands of docs/scale.md under Debian's slurm-wlm, on this machine: an array of 16, one task of which fails and is requeued (nightly).

Everything of the cluster (munge key and socket, configuration, spool) lies in the test's folder, and its processes end with it.
"""

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

from common import ROOT, TANDEM, Case, tandem
from tasks_test import same_tree
from tiny import TV3, write_folder

SHARES = 16
CONF = """\
ClusterName=tandem
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
ReturnToService=2
MailProg=/bin/true
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=8000
PartitionName=all Nodes=ALL Default=YES MaxTime=10
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Slurm(Case):
    def setUp(self):
        super().setUp()
        missing = [name for name in ("slurmctld", "slurmd", "sbatch", "munged") if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")]
        self.assertEqual(missing, [], "make packages-nightly installs them")
        if os.geteuid() != 0:
            self.skipTest("slurmd wants root")
        self.folder = self.scratch / "slurm"
        for name in ("state", "spool"):
            (self.folder / name).mkdir(parents=True)
        self.conf = self.folder / "slurm.conf"
        self.conf.write_text(CONF.format(host=socket.gethostname().split(".")[0], folder=self.folder, user=pwd.getpwuid(os.geteuid()).pw_name, ports=free_ports(2)))
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "JOB_"))}
        self.env |= {"SLURM_CONF": str(self.conf), "PATH": f"{self.scratch}/bin:{TANDEM.parent}:{os.environ['PATH']}:/usr/sbin"}
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self.start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.socket", f"--pid-file={self.folder}/munged.pid",
                   f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munged.seed")  # fmt: skip
        self.wait_for(lambda: (self.folder / "munge.socket").exists(), "munged")
        self.start("slurmctld", "-D", "-f", self.conf)
        self.start("slurmd", "-D", "-f", self.conf)
        self.wait_for(lambda: "idle" in self.slurm("sinfo", "-h", "-o", "%T"), "a node that is idle")

    def start(self, *command):
        log = open(self.folder / f"{command[0]}.out", "w")
        process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=subprocess.STDOUT, env=self.env, start_new_session=True)

        def stop():
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            log.close()

        self.addCleanup(stop)

    def slurm(self, *command):
        return subprocess.run([str(word) for word in command], cwd=self.scratch, env=self.env, capture_output=True, text=True).stdout

    def wait_for(self, holds, what, seconds=60):
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                logs = "\n".join(f"{path.name}:\n{path.read_text()[-1500:]}" for path in sorted(self.folder.glob("*.*")) if path.suffix in (".log", ".out"))
                self.fail(f"{what}: not within {seconds} s\n{self.slurm('squeue', '-a')}\n{logs}")
            time.sleep(0.2)

    def test_the_array_of_the_docs_with_a_task_that_fails_and_is_requeued(self):
        source = write_folder(self.scratch / "deepseek-v3", TV3)
        flags = ("--max-shard-size", "1KB")
        tandem("convert", source, self.scratch / "whole", *flags)
        tandem("plan", source, self.scratch / "v3.savedmodel", *flags, "--out", self.scratch / "v3.plan.json")
        subprocess.run([sys.executable, ROOT / "deploy" / "make.py", "v3.plan.json", "--shares", str(SHARES)], cwd=self.scratch, check=True)
        # The first try of share 5 dies as if its disk were full; the second is the program itself.
        (self.scratch / "bin").mkdir()
        wrapper = self.scratch / "bin" / "tandem"
        wrapper.write_text(
            f'#!/bin/sh\nif [ "$SLURM_ARRAY_TASK_ID" = 5 ] && [ ! -e {self.scratch}/failed ]; then echo "$SLURM_JOB_ID" > {self.scratch}/failed; exit 74; fi\n'
            f'[ -z "$SLURM_ARRAY_TASK_ID" ] || echo "${{SLURM_RESTART_COUNT:-0}}" >> {self.scratch}/tries.$SLURM_ARRAY_TASK_ID\n'
            f'exec {TANDEM} "$@"\n'
        )
        wrapper.chmod(0o755)
        page = (ROOT / "docs" / "scale.md").read_text()
        command = re.search(r"^\$ (job=\$\(sbatch .*)$", page, re.MULTILINE).group(1)
        done = subprocess.run(["sh", "-ec", command], cwd=self.scratch, env=self.env, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done)
        self.wait_for(lambda: (self.scratch / "v3.savedmodel").exists() and not self.slurm("squeue", "-h"), "the array and what comes after it", 300)
        self.assertTrue((self.scratch / "failed").exists())
        self.assertTrue(same_tree(self.scratch / "v3.savedmodel", self.scratch / "whole"))
        tries = {index: (self.scratch / f"tries.{index}").read_text().split() for index in range(SHARES)}
        self.assertEqual(tries, {index: ["1"] if index == 5 else ["0"] for index in range(SHARES)})


if __name__ == "__main__":
    unittest.main()
