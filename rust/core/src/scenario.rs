//! Everything that defines a run, as plain data, and the only check of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Result, SimError};
use crate::kernels::Kernel;
use crate::kernels::spec::PolicySpec;
use crate::pelt::PeltTable;
use crate::sim::Setup;
use crate::sim::cost::CostModel;
use crate::sim::hotplug::Plugged;
use crate::sim::tunables::{Features, TunableSettings, Tunables};
use crate::topology::{DomainRules, MachineSpec, build_sched_domains};
use crate::workload::together::{self, PartGroups};
use crate::workload::{Action, Hackbench, Kernbench, Load, LuOmp, Tasks, Tbench, Together};

/// A machine with its costs, a kernel and a load.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The machine.
    pub machine: MachineSpec,
    /// The machine's costs; what is not given has its default.
    #[serde(default)]
    pub costs: CostModel,
    /// The kernel.
    pub kernel: KernelSpec,
    /// The load.
    pub workload: WorkloadSpec,
}

/// A kernel: a generation, patches, and what was set on top.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelSpec {
    /// The generation.
    pub name: String,
    /// Patches, in the order in which they are applied.
    #[serde(default)]
    pub patches: Vec<String>,
    /// Tunables.
    #[serde(default)]
    pub tunables: TunableSettings,
    /// Scheduler features by upstream name.
    #[serde(default)]
    pub features: BTreeMap<String, bool>,
    /// Slots filled as another generation or patch fills them.
    #[serde(default)]
    pub slots: BTreeMap<String, String>,
    /// Kernel whose rules build the sched domains; the generation's own if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domains: Option<String>,
}

/// A load, by kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum WorkloadSpec {
    /// hackbench.
    Hackbench(Hackbench),
    /// tbench.
    Tbench(Tbench),
    /// make -j of a kernel tree.
    Kernbench(Kernbench),
    /// LU of the NAS parallel benchmarks.
    LuOmp(LuOmp),
    /// Tasks of the user's own.
    Tasks(Tasks),
    /// Several loads on one machine.
    Together(Together),
}

impl WorkloadSpec {
    pub(crate) fn validate(&self, machine: &MachineSpec) -> Result<()> {
        match self {
            Self::Hackbench(hackbench) => hackbench.validate(),
            Self::Tbench(tbench) => tbench.validate(),
            Self::Kernbench(kernbench) => kernbench.validate(),
            Self::LuOmp(lu) => lu.validate(machine),
            Self::Tasks(tasks) => tasks.validate(machine),
            Self::Together(together) => together.validate(machine),
        }
    }

    /// The argument that asks for a task group, and its value, if one does.
    fn first_group(&self) -> Option<(String, String)> {
        let in_cgroup = |cgroup: bool| cgroup.then(|| ("cgroup".to_owned(), "true".to_owned()));
        let tasks = match self {
            Self::Hackbench(hackbench) => return in_cgroup(hackbench.cgroup),
            Self::Tbench(tbench) => return in_cgroup(tbench.cgroup),
            Self::Kernbench(kernbench) => return in_cgroup(kernbench.cgroup),
            Self::LuOmp(lu) => return lu.first_group(),
            Self::Together(Together { cgroups: PartGroups::Separate, .. }) => {
                return Some(("cgroups".to_owned(), "\"separate\"".to_owned()));
            }
            Self::Together(together) => {
                return together.parts.iter().enumerate().find_map(|(at, part)| {
                    let (argument, value) = part.first_group()?;
                    Some((format!("parts[{at}].{argument}"), value))
                });
            }
            Self::Tasks(tasks) => tasks,
        };
        let of_tasks = tasks.tasks.iter().find_map(|entry| entry.group.as_ref());
        let group = of_tasks.or_else(|| tasks.groups.first().map(|group| &group.name));
        group.map(|name| ("group".to_owned(), format!("{name:?}")))
    }

    /// Checks that the kernel has what the load asks for.
    fn validate_under(&self, kernel: &Kernel) -> Result<()> {
        match self {
            Self::Hackbench(_) | Self::Tbench(_) | Self::Kernbench(_) | Self::LuOmp(_) => Ok(()),
            Self::Tasks(tasks) => tasks.validate_under(kernel),
            Self::Together(together) => {
                let mut parts = together.parts.iter().enumerate();
                parts.try_for_each(|(at, part)| together::in_part(at, part.validate_under(kernel)))
            }
        }
    }

    /// The machine after each time that a CPU goes off or comes back.
    pub(crate) fn machines_after(&self, machine: &MachineSpec) -> Vec<MachineSpec> {
        match self {
            Self::Tasks(tasks) => tasks.machines_after(machine),
            Self::Together(together) => together.parts[0].machines_after(machine),
            Self::Hackbench(_) | Self::Tbench(_) | Self::Kernbench(_) | Self::LuOmp(_) => Vec::new(),
        }
    }

    fn load(&self, machine: &MachineSpec, cost: &CostModel, tunables: &Tunables) -> Result<Load> {
        Ok(match self {
            Self::Hackbench(hackbench) => hackbench.load(),
            Self::Tbench(tbench) => tbench.load(cost),
            Self::Kernbench(kernbench) => kernbench.load(machine, cost),
            Self::LuOmp(lu) => lu.load(machine, cost),
            Self::Tasks(tasks) => tasks.load(machine, tunables.autogroup),
            Self::Together(together) => {
                let parts = together.parts.iter().map(|part| part.load(machine, cost, tunables));
                together.load(parts.collect::<Result<_>>()?, machine)?
            }
        })
    }
}

impl KernelSpec {
    /// Reads a kernel from JSON.
    pub fn from_json(json: &str) -> Result<Self> {
        serde_json::from_str(json)
            .map_err(|error| SimError::invalid("kernel", "the JSON given", error.to_string()))
    }

    /// The table of slots: generation, then patches, then single slots.
    pub fn kernel(&self) -> Result<Kernel> {
        let (name, patches, slots) = (self.name.clone(), self.patches.clone(), self.slots.clone());
        PolicySpec { name, patches, slots }.resolve()
    }

    /// The features with what was switched.
    fn features(&self) -> Result<Features> {
        let mut features = Features::default();
        for (name, &on) in &self.features {
            features.set(name, on)?;
        }
        Ok(features)
    }

    /// The rules that build the sched domains.
    fn domain_rules(&self) -> Result<&'static DomainRules> {
        let Some(kernel) = &self.domains else { return DomainRules::for_kernel(&self.name) };
        DomainRules::for_kernel(kernel).map_err(|error| match error {
            SimError::Invalid { value, rule, .. } => SimError::invalid("domains", value, rule),
            other => other,
        })
    }

    /// Checks names and values.
    pub fn validate(&self) -> Result<()> {
        let kernel = self.kernel()?;
        let rules = self.domain_rules()?;
        self.features()?;
        self.tunables.validate()?;
        if rules.o1 != kernel.o1.is_some() {
            let rule = format!("must be a kernel of the same scheduler as {}", self.name);
            return Err(SimError::invalid("domains", format!("{:?}", rules.kernel), rule));
        }
        if kernel.o1.is_some() { self.validate_o1() } else { Ok(()) }
    }

    /// The O(1) scheduler has no features, and of the tunables only the tick.
    fn validate_o1(&self) -> Result<()> {
        if let Some(name) = self.features.keys().next() {
            let rule = format!("is a feature of the fair scheduler; {} has none", self.name);
            return Err(SimError::invalid("features", format!("{name:?}"), rule));
        }
        let set = serde_json::to_value(&self.tunables).unwrap_or_default();
        let other =
            set.as_object().into_iter().flatten().find(|(name, value)| *name != "hz" && !value.is_null());
        if let Some((name, value)) = other {
            let rule = format!("is a tunable of the fair scheduler; {} has hz only", self.name);
            return Err(SimError::invalid(format!("tunables.{name}"), value, rule));
        }
        Ok(())
    }
}

impl Scenario {
    /// Reads a scenario from JSON and checks it.
    pub fn from_json(json: &str) -> Result<Self> {
        let scenario: Self = serde_json::from_str(json)
            .map_err(|error| SimError::invalid("scenario", "the JSON given", error.to_string()))?;
        scenario.validate()?;
        Ok(scenario)
    }

    /// Checks every rule; the error names argument, value and rule.
    pub fn validate(&self) -> Result<()> {
        self.machine.validate()?;
        self.costs.validate()?;
        self.kernel.validate()?;
        self.validate_ticks()?;
        self.validate_groups()?;
        self.workload.validate(&self.machine)?;
        self.workload.validate_under(&self.kernel.kernel()?)
    }

    /// Task groups came with the fair scheduler.
    fn validate_groups(&self) -> Result<()> {
        match self.workload.first_group() {
            Some((argument, value)) if self.kernel.kernel()?.o1.is_some() => {
                let rule = format!("must not be given: {} has no task groups", self.kernel.name);
                Err(SimError::invalid(argument, value, rule))
            }
            _ => Ok(()),
        }
    }

    /// Ticks that take as long as they are apart would keep every task from running.
    fn validate_ticks(&self) -> Result<()> {
        let tick_ns = self.kernel.tunables.resolve(1).tick_ns;
        let capacity = self.machine.capacity.iter().copied().min().map_or(1024, u64::from);
        let mut threads_of = BTreeMap::new();
        for core in &self.machine.core {
            *threads_of.entry(core).or_insert(0) += 1;
        }
        let threads = threads_of.into_values().max().unwrap_or(1);
        let speed_permille = self.costs.busy_thread_permille(threads - 1);
        let takes_ns = self.costs.tick_ns * 1024 * 1000 / (capacity * speed_permille);
        if takes_ns > tick_ns / 2 {
            let rule =
                format!("takes {takes_ns} ns on the slowest CPU, and half of a tick is {} ns", tick_ns / 2);
            return Err(SimError::invalid("costs.tick_ns", self.costs.tick_ns, rule));
        }
        Ok(())
    }

    /// Builds what all seeds share.
    pub fn setup(&self) -> Result<Setup> {
        self.validate()?;
        let kernel = self.kernel.kernel()?;
        let rules = self.kernel.domain_rules()?;
        let online = self.machine.nr_cpus() - self.machine.offline.len();
        let mut tunables = self.kernel.tunables.resolve(online);
        tunables.numa_balancing &= kernel.o1.is_none();
        let mut load = self.workload.load(&self.machine, &self.costs, &tunables)?;
        let plugged = self.plugged(rules, &mut load)?;
        Ok(Setup {
            domains: build_sched_domains(&self.machine, rules)?,
            machine: self.machine.clone(),
            kernel,
            features: self.kernel.features()?,
            pelt_table: PeltTable::new(tunables.pelt_half_life_ms)?,
            tunables,
            cost: self.costs.clone(),
            load,
            plugged,
        })
    }

    /// The states of the machine after its CPUs go off and come back; each once, as the load's actions then say.
    fn plugged(&self, rules: &DomainRules, load: &mut Load) -> Result<Vec<Plugged>> {
        let machines = self.workload.machines_after(&self.machine);
        let mut states: Vec<Plugged> = Vec::new();
        let mut state_of = Vec::with_capacity(machines.len());
        for machine in machines {
            let known = states.iter().position(|state| state.machine == machine);
            state_of.push(known.unwrap_or(states.len()));
            if known.is_none() {
                let online = machine.nr_cpus() - machine.offline.len();
                let (domains, tunables) =
                    (build_sched_domains(&machine, rules)?, self.kernel.tunables.resolve(online));
                states.push(Plugged { machine, domains, tunables });
            }
        }
        for (_, action) in &mut load.actions {
            if let Action::Hotplug { state, .. } = action {
                *state = state_of[*state];
            }
        }
        Ok(states)
    }
}
