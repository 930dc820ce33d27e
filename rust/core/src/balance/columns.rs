//! The decisions over columns of cases: a million at a time, each as the kernel decides it.

use super::{MAX_CAPACITY, MAX_IMBALANCE_PCT, MAX_WAKE_CAPACITY, MAX_WAKE_LOAD};
use crate::cpumask::CpuMask;
use crate::error::{Result, SimError};
use crate::kernels::Kernel;
use crate::kernels::env::{
    CpuIdleType, GroupType, LbEnv, LbView, RqStats, SdLbStats, SgLbStats, SystemState, WakeAffineEnv,
    WakeCpu, WakeTarget,
};
use crate::topology::SdFlags;

/// Largest number of tasks or CPUs of a group that a column may hold.
pub const MAX_GROUP_TASKS: u64 = 1 << 24;
/// Largest sum of load or runnable_avg of a group, or of a domain, that a column may hold.
pub const MAX_GROUP_LOAD: u64 = 1 << 40;
/// Largest sum of utilization or capacity of a group that a column may hold.
pub const MAX_GROUP_CAPACITY: u64 = MAX_CAPACITY << 12;

/// Named columns of equally many cases; a column of one value holds for all cases.
pub struct Columns<'a> {
    len: usize,
    columns: Vec<(String, &'a [i64])>,
}

/// A checked column.
#[derive(Clone, Copy)]
struct Column<'a> {
    values: &'a [i64],
    /// 0 where one value holds for all cases, so that indexing needs no branch.
    step: usize,
}

impl Column<'_> {
    #[inline]
    fn at(self, case: usize) -> u64 {
        self.values[case * self.step].cast_unsigned()
    }

    #[inline]
    fn count(self, case: usize) -> u32 {
        self.at(case) as u32
    }

    #[inline]
    fn is_set(self, case: usize) -> bool {
        self.at(case) != 0
    }
}

impl<'a> Columns<'a> {
    /// `len` cases; each column has `len` values or one.
    pub fn new(len: usize, columns: Vec<(String, &'a [i64])>) -> Result<Self> {
        for (name, values) in &columns {
            if values.len() != len && values.len() != 1 {
                let value = format!("{} values", values.len());
                return Err(SimError::invalid(name, value, format!("must have one value or {len}")));
            }
        }
        Ok(Self { len, columns })
    }

    /// Number of cases.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no case.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The column called `name`, all of whose values are between the two.
    fn get(&self, name: &str, least: u64, most: u64) -> Result<Column<'a>> {
        let Some(&(_, values)) = self.columns.iter().find(|(other, _)| other == name) else {
            return Err(SimError::invalid(name, "nothing", "must be given"));
        };
        let range = least.cast_signed()..=most.cast_signed();
        if let Some(case) = values.iter().position(|value| !range.contains(value)) {
            let name = if values.len() == 1 { name.to_owned() } else { format!("{name}[{case}]") };
            return Err(super::out_of_range(&name, values[case], least, most));
        }
        Ok(Column { values, step: usize::from(values.len() != 1) })
    }

    /// The column called `name`, or all zero if there is none.
    fn get_or_zero(&self, name: &str, most: u64) -> Result<Column<'a>> {
        if self.columns.iter().any(|(other, _)| other == name) {
            return self.get(name, 0, most);
        }
        Ok(Column { values: &[0], step: 0 })
    }

    fn flag(&self, name: &str) -> Result<Column<'a>> {
        self.get(name, 0, 1)
    }

    fn check_output(&self, name: &str, len: usize) -> Result<()> {
        if len == self.len {
            return Ok(());
        }
        Err(SimError::invalid(
            name,
            format!("{len} values"),
            format!("must have room for {} cases", self.len),
        ))
    }
}

/// `group_classify` of each case, as codes of [`GroupType`].
///
/// Columns: `sum_nr_running`, `group_weight`, `group_capacity`, `group_util`, `group_runnable`, `imbalance_pct`,
/// `imbalanced`, `asym_packing`, `misfit_task_load`, and, if v6.12 is to read it, `smt_balance`.
pub fn classify(kernel: &Kernel, columns: &Columns<'_>, group_types: &mut [i8]) -> Result<()> {
    columns.check_output("group_types", group_types.len())?;
    let imbalance_pct = columns.get("imbalance_pct", 100, MAX_IMBALANCE_PCT)?;
    let imbalanced = columns.flag("imbalanced")?;
    let group = ClassifiedColumns::new(columns, "")?;
    for (case, group_type) in group_types.iter_mut().enumerate() {
        let sgs = group.stats(case);
        let pct = imbalance_pct.count(case);
        *group_type = (kernel.balance.group_classify.f)(kernel, pct, imbalanced.is_set(case), &sgs) as i8;
    }
    Ok(())
}

/// What the class of a group follows from.
struct ClassifiedColumns<'a> {
    sum_nr_running: Column<'a>,
    group_weight: Column<'a>,
    group_capacity: Column<'a>,
    group_util: Column<'a>,
    group_runnable: Column<'a>,
    asym_packing: Column<'a>,
    misfit_task_load: Column<'a>,
    smt_balance: Column<'a>,
}

impl<'a> ClassifiedColumns<'a> {
    fn new(columns: &Columns<'a>, prefix: &str) -> Result<Self> {
        let get = |name: &str, least, most| columns.get(&format!("{prefix}{name}"), least, most);
        Ok(Self {
            sum_nr_running: get("sum_nr_running", 0, MAX_GROUP_TASKS)?,
            group_weight: get("group_weight", 0, MAX_GROUP_TASKS)?,
            group_capacity: get("group_capacity", 1, MAX_GROUP_CAPACITY)?,
            group_util: get("group_util", 0, MAX_GROUP_CAPACITY)?,
            group_runnable: get("group_runnable", 0, MAX_GROUP_LOAD)?,
            asym_packing: get("asym_packing", 0, 1)?,
            misfit_task_load: get("misfit_task_load", 0, MAX_GROUP_LOAD)?,
            smt_balance: columns.get_or_zero(&format!("{prefix}smt_balance"), 1)?,
        })
    }

    fn stats(&self, case: usize) -> SgLbStats {
        SgLbStats {
            sum_nr_running: self.sum_nr_running.count(case),
            group_weight: self.group_weight.count(case),
            group_capacity: self.group_capacity.at(case),
            group_util: self.group_util.at(case),
            group_runnable: self.group_runnable.at(case),
            group_asym_packing: self.asym_packing.is_set(case),
            group_misfit_task_load: self.misfit_task_load.at(case),
            group_smt_balance: self.smt_balance.is_set(case),
            ..SgLbStats::default()
        }
    }
}

/// Statistics of one of the two groups between which an imbalance is computed.
struct GroupColumns<'a> {
    group_type: Column<'a>,
    group_load: Column<'a>,
    group_capacity: Column<'a>,
    group_util: Column<'a>,
    group_weight: Column<'a>,
    sum_nr_running: Column<'a>,
    sum_h_nr_running: Column<'a>,
    idle_cpus: Column<'a>,
    group_cores: Column<'a>,
    misfit_task_load: Column<'a>,
}

impl<'a> GroupColumns<'a> {
    fn new(columns: &Columns<'a>, prefix: &str) -> Result<Self> {
        let get = |name: &str, least, most| columns.get(&format!("{prefix}{name}"), least, most);
        Ok(Self {
            group_type: get("group_type", 0, GroupType::ALL.len() as u64 - 1)?,
            group_load: get("group_load", 0, MAX_GROUP_LOAD)?,
            group_capacity: get("group_capacity", 1, MAX_GROUP_CAPACITY)?,
            group_util: get("group_util", 0, MAX_GROUP_CAPACITY)?,
            group_weight: get("group_weight", 1, MAX_GROUP_TASKS)?,
            sum_nr_running: get("sum_nr_running", 0, MAX_GROUP_TASKS)?,
            sum_h_nr_running: get("sum_h_nr_running", 0, MAX_GROUP_TASKS)?,
            idle_cpus: get("idle_cpus", 0, MAX_GROUP_TASKS)?,
            group_cores: columns.get_or_zero(&format!("{prefix}group_cores"), MAX_GROUP_TASKS)?,
            misfit_task_load: columns.get_or_zero(&format!("{prefix}misfit_task_load"), MAX_GROUP_LOAD)?,
        })
    }

    fn stats(&self, case: usize) -> SgLbStats {
        let group_type = GroupType::ALL[self.group_type.at(case) as usize];
        let (group_load, group_capacity) = (self.group_load.at(case), self.group_capacity.at(case));
        // As update_sg_lb_stats() of the reworked balancer leaves it: known for overloaded groups only.
        let avg_load =
            if group_type == GroupType::Overloaded { group_load * 1024 / group_capacity } else { 0 };
        SgLbStats {
            avg_load,
            group_load,
            group_capacity,
            group_type,
            group_util: self.group_util.at(case),
            group_weight: self.group_weight.count(case),
            sum_nr_running: self.sum_nr_running.count(case),
            sum_h_nr_running: self.sum_h_nr_running.count(case),
            idle_cpus: self.idle_cpus.count(case),
            group_cores: self.group_cores.count(case),
            group_misfit_task_load: self.misfit_task_load.at(case),
            ..SgLbStats::default()
        }
    }
}

/// `calculate_imbalance` of each case: how much, and codes of the migration type.
///
/// Columns: those of a group with the prefixes `local.` and `busiest.`; `total_load`, `total_capacity` of the domain;
/// `prefer_sibling`, `numa`; `idle` as codes of [`CpuIdleType`]. Those that only v6.12 reads may be left out: `group_cores`
/// and `misfit_task_load` of the groups (v5.4 reads the latter, too), `share_llc`, `asym_cpucapacity`, `imb_numa_nr`.
pub fn calculate_imbalance(
    kernel: &Kernel,
    columns: &Columns<'_>,
    imbalances: &mut [i64],
    migration_types: &mut [i8],
) -> Result<()> {
    columns.check_output("imbalances", imbalances.len())?;
    columns.check_output("migration_types", migration_types.len())?;
    let local = GroupColumns::new(columns, "local.")?;
    let busiest = GroupColumns::new(columns, "busiest.")?;
    let total_load = columns.get("total_load", 0, MAX_GROUP_LOAD)?;
    let total_capacity = columns.get("total_capacity", 1, MAX_GROUP_CAPACITY)?;
    let prefer_sibling = columns.flag("prefer_sibling")?;
    let numa = columns.flag("numa")?;
    let share_llc = columns.get_or_zero("share_llc", 1)?;
    let asym_cpucapacity = columns.get_or_zero("asym_cpucapacity", 1)?;
    let imb_numa_nr = columns.get_or_zero("imb_numa_nr", MAX_GROUP_TASKS)?;
    let idle = columns.get("idle", 0, CpuIdleType::ALL.len() as u64 - 1)?;

    let mut sd = super::plain_domain(CpuMask::new(1), 2);
    let (rqs, system, mut stats) = (RqStats::new(1), SystemState::default(), Vec::new());
    let view = LbView { kernel, groups: &[], sgc_imbalance: &[], rqs: &rqs, system: &system, node_of: &[] };
    for (case, (imbalance, migration_type)) in imbalances.iter_mut().zip(migration_types).enumerate() {
        let (total_load, total_capacity) = (total_load.at(case), total_capacity.at(case));
        let mut sds = SdLbStats {
            busiest: Some(1),
            total_load,
            total_capacity,
            avg_load: total_load * 1024 / total_capacity,
            prefer_sibling: prefer_sibling.is_set(case),
            busiest_stat: busiest.stats(case),
            local_stat: local.stats(case),
        };
        sd.imb_numa_nr = imb_numa_nr.count(case);
        sd.flags = SdFlags::default();
        for (column, flag) in [
            (numa, SdFlags::NUMA),
            (share_llc, SdFlags::SHARE_LLC),
            (asym_cpucapacity, SdFlags::ASYM_CPUCAPACITY),
        ] {
            if column.is_set(case) {
                sd.flags = sd.flags.with(flag);
            }
        }
        let idle = CpuIdleType::ALL[idle.at(case) as usize];
        let mut env = LbEnv::new(view, &sd, 0, idle, 0, &mut stats);
        (kernel.balance.calculate_imbalance.f)(&mut env, &mut sds);
        *imbalance = env.imbalance;
        *migration_type = env.migration_type as i8;
    }
    Ok(())
}

/// `wake_affine` of each case: 0 = the waker's CPU, 1 = the previous one.
///
/// Columns: `this_idle`, `prev_idle`, `this_nr_running`, `this_load`, `prev_load`, `this_capacity`, `prev_capacity`,
/// `waker_load`, `wakee_load`, `sync`, `share_cache`, `imbalance_pct`.
pub fn wake_affine(kernel: &Kernel, columns: &Columns<'_>, targets: &mut [i8]) -> Result<()> {
    columns.check_output("targets", targets.len())?;
    let load = |name| columns.get(name, 0, MAX_WAKE_LOAD);
    let capacity = |name| columns.get(name, 1, MAX_WAKE_CAPACITY);
    let (this_load, prev_load) = (load("this_load")?, load("prev_load")?);
    let (waker_load, wakee_load) = (load("waker_load")?, load("wakee_load")?);
    let (this_capacity, prev_capacity) = (capacity("this_capacity")?, capacity("prev_capacity")?);
    let (this_idle, prev_idle) = (columns.flag("this_idle")?, columns.flag("prev_idle")?);
    let this_nr_running = columns.get("this_nr_running", 0, MAX_GROUP_TASKS)?;
    let (sync, share_cache) = (columns.flag("sync")?, columns.flag("share_cache")?);
    let imbalance_pct = columns.get("imbalance_pct", 100, MAX_IMBALANCE_PCT)?;
    for (case, target) in targets.iter_mut().enumerate() {
        let answer = (kernel.wakeup.wake_affine.f)(&WakeAffineEnv {
            kernel,
            imbalance_pct: imbalance_pct.count(case),
            sync: sync.is_set(case),
            share_cache: share_cache.is_set(case),
            this: WakeCpu {
                idle: this_idle.is_set(case),
                nr_running: this_nr_running.count(case),
                load: this_load.at(case),
                capacity: this_capacity.at(case),
            },
            prev: WakeCpu {
                idle: prev_idle.is_set(case),
                // The previous CPU's tasks are not counted by any rule.
                nr_running: 0,
                load: prev_load.at(case),
                capacity: prev_capacity.at(case),
            },
            waker_load: waker_load.at(case),
            wakee_load: wakee_load.at(case),
        });
        *target = i8::from(answer == WakeTarget::Prev);
    }
    Ok(())
}

/// `wake_wide` of each case: columns `waker_flips`, `wakee_flips`, `llc_size`.
pub fn wake_wide(kernel: &Kernel, columns: &Columns<'_>, wide: &mut [bool]) -> Result<()> {
    columns.check_output("wide", wide.len())?;
    let waker_flips = columns.get("waker_flips", 0, u64::from(u32::MAX))?;
    let wakee_flips = columns.get("wakee_flips", 0, u64::from(u32::MAX))?;
    let llc_size = columns.get("llc_size", 1, MAX_GROUP_TASKS)?;
    for (case, wide) in wide.iter_mut().enumerate() {
        *wide = (kernel.wakeup.wake_wide.f)(
            waker_flips.count(case),
            wakee_flips.count(case),
            llc_size.count(case),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{v5_6, v5_7};

    fn column(name: &str, values: &'static [i64]) -> (String, &'static [i64]) {
        (name.to_owned(), values)
    }

    fn classified(group_runnable: &'static [i64], len: usize) -> Columns<'static> {
        Columns::new(
            len,
            vec![
                column("sum_nr_running", &[3]),
                column("group_weight", &[2]),
                column("group_capacity", &[2048]),
                column("group_util", &[1200]),
                column("group_runnable", group_runnable),
                column("imbalance_pct", &[117]),
                column("imbalanced", &[0]),
                column("asym_packing", &[0]),
                column("misfit_task_load", &[0]),
            ],
        )
        .unwrap()
    }

    #[test]
    fn one_value_holds_for_all_cases() {
        let mut types = [0; 2];
        let columns = classified(&[1200, 2900], 2);
        classify(&v5_7::KERNEL, &columns, &mut types).unwrap();
        assert_eq!(types, [GroupType::HasSpare as i8, GroupType::Overloaded as i8]);
        classify(&v5_6::KERNEL, &columns, &mut types).unwrap();
        assert_eq!(types, [GroupType::HasSpare as i8; 2]);
    }

    #[test]
    fn a_bad_value_is_named_with_its_place() {
        let error =
            classify(&v5_7::KERNEL, &classified(&[1200, -1], 2), &mut [0; 2]).unwrap_err().to_string();
        assert_eq!(error, "group_runnable[1] = -1: must be between 0 and 1099511627776");
        let error = Columns::new(3, vec![column("idle", &[0, 1])]).err().unwrap().to_string();
        assert_eq!(error, "idle = 2 values: must have one value or 3");
        let missing = wake_wide(&v5_7::KERNEL, &Columns::new(1, vec![]).unwrap(), &mut [false]).unwrap_err();
        assert!(missing.to_string().starts_with("waker_flips = nothing"), "{missing}");
    }
}
