# ruff: noqa: E501 - as it is printed
"""What Slurm's commands print: recorded from 22.05.8, and written by hand after later releases."""

SQUEUE = """\
7|PENDING||N/A|j.sh|(null)|Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions
10|FAILED||1795461025|j.sh|(null)|BadConstraints
1|COMPLETING|n1|1795461132|ts-abc-5|5/1|None
2+0|RUNNING|n1|1795461132|ts-abc-6|6/1|None
2+1|RUNNING|n[2-4]|1795461132|ts-abc-6.1|6/1|None
4|PENDING||N/A|ts-abc-7|7/1|JobHeldUser
what is no row
12_3|RUNNING|n1|1795461132|an-array|x|None
"""

NODES = """\
NodeName=n1 Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=8 CPUTot=8 CPULoad=0.63 AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:t4:4 NodeAddr=10.77.4.1 NodeHostName=vm Port=17501 Version=22.05.8 OS=Linux 6.18.44-fc-v657 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=8192 AllocMem=0 FreeMem=22817 Sockets=8 Boards=1 State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=main,short,low,acct  BootTime=2026-11-23T18:43:21 SlurmdStartTime=2026-11-23T19:09:59 LastBusyTime=2026-11-23T19:10:00 CfgTRES=cpu=8,mem=8000M,billing=8 AllocTRES= CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s
NodeName=n2 CPUEfctv=8 CPUTot=8 Gres=gpu:t4:4(S:0-1),nic:1 RealMemory=8192 State=IDLE+DRAIN ThreadsPerCore=1 Partitions=main,short BootTime=x Reason=bad disk [root@2026-11-23T19:17:49]
NodeName=n3 Arch=x86_64 CPUAlloc=2 CPUEfctv=14 CPUTot=16 Gres=gpu:nvidia_a100_80gb_pcie:2,gpu:h100:8(S:0) OS=Linux 6.1 RealMemory=65536 MemSpecLimit=1024 State=MIXED+PLANNED Partitions=main Comment=the = sign
NodeName=n4 CPUTot=4 Gres=gpu:2 RealMemory=4096 State=DOWN* Partitions=low
"""

PARTITIONS = """\
PartitionName=main AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=YES QoS=N/A DefaultTime=NONE GraceTime=0 MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 MaxCPUsPerNode=UNLIMITED Nodes=n[1-6] State=UP TotalCPUs=48 MaxMemPerNode=UNLIMITED TRES=cpu=48,mem=48000M
PartitionName=short AllowGroups=ALL Default=NO MaxNodes=2 MaxTime=01:00:00 Nodes=n[1-2] State=UP MaxMemPerNode=4000
PartitionName=shut Default=NO MaxNodes=UNLIMITED MaxTime=7-00:00:00 Nodes=n6 State=DOWN
"""

#: Reasons of jobs that wait, of all releases from 22.05 to 26.05; those of jobs that have ended and
#: of options that no attempt has (stages of burst buffers, federations, deadlines) are left out.
WAITING = """\
AccountNotAllowed AccountingPolicy AssocGrpBB AssocGrpBBMinutes AssocGrpBBRunMinutes AssocGrpBilling
AssocGrpBillingMinutes AssocGrpBillingRunMinutes AssocGrpCPUMinutesLimit AssocGrpCPURunMinutesLimit
AssocGrpCpuLimit AssocGrpEnergy AssocGrpEnergyMinutes AssocGrpEnergyRunMinutes AssocGrpGRES
AssocGrpGRESMinutes AssocGrpGRESRunMinutes AssocGrpJobsLimit AssocGrpLicense AssocGrpLicenseMinutes
AssocGrpLicenseRunMinutes AssocGrpMemLimit AssocGrpMemMinutes AssocGrpMemRunMinutes
AssocGrpNodeLimit AssocGrpNodeMinutes AssocGrpNodeRunMinutes AssocGrpSubmitJobsLimit AssocGrpUnknown
AssocGrpUnknownMinutes AssocGrpUnknownRunMinutes AssocGrpWallLimit AssocMaxBBMinutesPerJob
AssocMaxBBPerJob AssocMaxBBPerNode AssocMaxBillingMinutesPerJob AssocMaxBillingPerJob
AssocMaxBillingPerNode AssocMaxCpuMinutesPerJobLimit AssocMaxCpuPerJobLimit AssocMaxCpuPerNode
AssocMaxEnergyMinutesPerJob AssocMaxEnergyPerJob AssocMaxEnergyPerNode AssocMaxGRESMinutesPerJob
AssocMaxGRESPerJob AssocMaxGRESPerNode AssocMaxJobsLimit AssocMaxLicenseMinutesPerJob
AssocMaxLicensePerJob AssocMaxMemMinutesPerJob AssocMaxMemPerJob AssocMaxMemPerNode
AssocMaxNodeMinutesPerJob AssocMaxNodePerJobLimit AssocMaxSubmitJobLimit
AssocMaxUnknownMinutesPerJob AssocMaxUnknownPerJob AssocMaxUnknownPerNode
AssocMaxWallDurationPerJobLimit AssociationJobLimit AssociationResourceLimit AssociationTimeLimit
BadConstraints BeginTime BurstBufferResources Cleaning Constraints Dependency InvalidAccount
InvalidQOS JobArrayTaskLimit JobHeldAdmin JobHeldUser JobHoldMaxRequeue Licenses MaxBBPerAccount
MaxBBRunMinsPerAccount MaxBBRunMinsPerUser MaxBillingPerAccount MaxBillingRunMinsPerAccount
MaxBillingRunMinsPerUser MaxCpuPerAccount MaxCpuRunMinsPerAccount MaxCpuRunMinsPerUser
MaxEnergyPerAccount MaxEnergyRunMinsPerAccount MaxEnergyRunMinsPerUser MaxGRESPerAccount
MaxGRESRunMinsPerAccount MaxGRESRunMinsPerUser MaxJobsPerAccount MaxLicensePerAccount
MaxLicenseRunMinsPerAccount MaxLicenseRunMinsPerUser MaxMemPerLimit MaxMemoryPerAccount
MaxMemoryRunMinsPerAccount MaxMemoryRunMinsPerUser MaxNodePerAccount MaxNodeRunMinsPerAccount
MaxNodeRunMinsPerUser MaxPoweredUpNodes MaxSubmitJobsPerAccount MaxUnknownPerAccount
MaxUnknownRunMinsPerAccount MaxUnknownRunMinsPerUser MpiPortsBusy NodeDown NvidiaImexChannels
PartitionConfig PartitionDown PartitionInactive PartitionNodeLimit PartitionTimeLimit Priority
Prolog QOSGrpBB QOSGrpBBMinutes QOSGrpBBRunMinutes QOSGrpBilling QOSGrpBillingMinutes
QOSGrpBillingRunMinutes QOSGrpCPUMinutesLimit QOSGrpCPURunMinutesLimit QOSGrpCpuLimit QOSGrpEnergy
QOSGrpEnergyMinutes QOSGrpEnergyRunMinutes QOSGrpGRES QOSGrpGRESMinutes QOSGrpGRESRunMinutes
QOSGrpJobsLimit QOSGrpLicense QOSGrpLicenseMinutes QOSGrpLicenseRunMinutes QOSGrpMemLimit
QOSGrpMemoryMinutes QOSGrpMemoryRunMinutes QOSGrpNodeLimit QOSGrpNodeMinutes QOSGrpNodeRunMinutes
QOSGrpSubmitJobsLimit QOSGrpUnknown QOSGrpUnknownMinutes QOSGrpUnknownRunMinutes QOSGrpWallLimit
QOSJobLimit QOSMaxBBPerJob QOSMaxBBPerNode QOSMaxBBPerUser QOSMaxBillingMinutesPerJob
QOSMaxBillingPerJob QOSMaxBillingPerNode QOSMaxBillingPerUser QOSMaxCpuMinutesPerJobLimit
QOSMaxCpuPerJobLimit QOSMaxCpuPerNode QOSMaxCpuPerUserLimit QOSMaxEnergyMinutesPerJob
QOSMaxEnergyPerJob QOSMaxEnergyPerNode QOSMaxEnergyPerUser QOSMaxGRESMinutesPerJob QOSMaxGRESPerJob
QOSMaxGRESPerNode QOSMaxGRESPerUser QOSMaxJobsPerUserLimit QOSMaxLicenseMinutesPerJob
QOSMaxLicensePerJob QOSMaxLicensePerUser QOSMaxMemoryMinutesPerJob QOSMaxMemoryPerJob
QOSMaxMemoryPerNode QOSMaxMemoryPerUser QOSMaxNodeMinutesPerJob QOSMaxNodePerJobLimit
QOSMaxNodePerUserLimit QOSMaxSubmitJobPerUserLimit QOSMaxUnknownMinutesPerJob QOSMaxUnknownPerJob
QOSMaxUnknownPerNode QOSMaxUnknownPerUser QOSMaxWallDurationPerJobLimit QOSMinBB QOSMinBilling
QOSMinCpuNotSatisfied QOSMinEnergy QOSMinGRES QOSMinLicense QOSMinMemory QOSMinNode QOSMinUnknown
QOSNotAllowed QOSResourceLimit QOSTimeLimit QOSUsageThreshold ReqNodeNotAvail Reservation
ReservationDeleted ReservationInvalid Resources
"""

#: A cloud's node that boots, with MIG slices, and its partition: 22.05.8, 24.11.5, 26.05.5.
BOOTING = """\
NodeName=n2 CoresPerSocket=1  CPUAlloc=2 CPUEfctv=16 CPUTot=16 CPULoad=N/A AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:a100_1g.5gb:2,gpu:a100:1 NodeAddr=127.0.0.1 NodeHostName=vm Port=17102  RealMemory=64000 AllocMem=200 FreeMem=N/A Sockets=16 Boards=1 State=MIXED+CLOUD+NOT_RESPONDING+POWERING_UP ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=main,urgent  BootTime=None SlurmdStartTime=None LastBusyTime=Unknown CfgTRES=cpu=16,mem=62.50G,billing=16 AllocTRES=cpu=2,mem=200M CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s
NodeName=n2 CoresPerSocket=1  CPUAlloc=2 CPUEfctv=16 CPUTot=16 CPULoad=0.00 AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:a100_1g.5gb:2,gpu:a100:1 NodeAddr=127.0.0.1 NodeHostName=vm Port=17102  RealMemory=64000 AllocMem=200 FreeMem=N/A Sockets=16 Boards=1 State=MIXED+CLOUD+NOT_RESPONDING+POWERING_UP ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=main,urgent  BootTime=None SlurmdStartTime=None LastBusyTime=Unknown ResumeAfterTime=None CfgTRES=cpu=16,mem=62.50G,billing=16 AllocTRES=cpu=2,mem=200M CurrentWatts=0 AveWatts=0
NodeName=n2 CoresPerSocket=1  CPUAlloc=2 CPUEfctv=16 CPUTot=16 CPULoad=0.00 AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:a100_1g.5gb:2,gpu:a100:1 NodeAddr=127.0.0.1 NodeHostName=vm Port=17102  RealMemory=64000 AllocMem=200 FreeMem=N/A Sockets=16 Boards=1 State=MIXED+CLOUD+NOT_RESPONDING+POWERING_UP ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=main,urgent  BootTime=None SlurmdStartTime=None LastBusyTime=Unknown ResumeAfterTime=None SuspendTime=36000 CfgTRES=cpu=16,mem=62.50G,billing=16 AllocTRES=cpu=2,mem=200M CurrentWatts=0 AveWatts=0
"""

LIMITED = """\
PartitionName=main AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO MaxNodes=UNLIMITED MaxTime=1-00:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED Nodes=n[1-2] PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO OverTimeLimit=NONE PreemptMode=CANCEL State=UP TotalCPUs=32 TotalNodes=2 SelectTypeParameters=NONE JobDefaults=(null) DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED TRES=cpu=32,mem=125G,node=2,billing=32
PartitionName=main AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO ExclusiveTopo=NO GraceTime=0 Hidden=NO MaxNodes=UNLIMITED MaxTime=1-00:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED MaxCPUsPerSocket=UNLIMITED NodeSets=ALL Nodes=n[1-2] PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO OverTimeLimit=NONE PreemptMode=CANCEL State=UP TotalCPUs=32 TotalNodes=2 SelectTypeParameters=NONE JobDefaults=(null) DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED TRES=cpu=32,mem=125G,node=2,billing=32 ResumeTimeout=GLOBAL SuspendTimeout=GLOBAL SuspendTime=GLOBAL PowerDownOnIdle=NO
PartitionName=main AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A DefaultTime=NONE DisableRootJobs=NO Exclusive=NO GraceTime=0 Hidden=NO MaxNodes=UNLIMITED MaxTime=1-00:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED MaxCPUsPerSocket=UNLIMITED NodeSets=ALL Nodes=n[1-2] PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO OverTimeLimit=NONE PreemptMode=CANCEL State=UP TotalCPUs=32 TotalNodes=2 SelectTypeParameters=NONE JobDefaults=(null) DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED TRES=cpu=32,mem=125G,node=2,billing=32 ResumeTimeout=GLOBAL SuspendTimeout=GLOBAL SuspendTime=GLOBAL PowerDownOnIdle=NO
"""

CONFIG = """\
Configuration data as of 2026-11-23T19:17:49
DefMemPerCPU            = 100
MaxMemPerNode           = UNLIMITED
"""
