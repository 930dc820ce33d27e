//! What the log of decisions hears of, where one is kept. Without one each of these functions is a test of one field.

use super::rq::{NO_TASK, TaskId};
use super::{START_NS, Sim};
use crate::kernels::env::{CpuIdleType, MigrationType, Refusals};
use crate::kernels::sis::PlacementRule;
use crate::record::decisions::{
    CpuState, Decisions, GroupSums, IdlestChoice, NumaAnswer, NumaAsked, NumaPlaced, Pass, PassAnswer,
    PassAsked, Pick, PickAsked, Placed, PlacedAnswer, PlacedAsked, Preemption, PreemptionAnswer,
    PreemptionAsked, Push, PushAsked, TaskAnswer, Tick, TickAsked, What,
};

impl Sim<'_> {
    /// A waking task was placed.
    #[inline]
    pub(super) fn log_wakeup(
        &mut self,
        this_cpu: usize,
        waker: TaskId,
        task: TaskId,
        prev: usize,
        sync: bool,
        answer: (usize, PlacementRule),
    ) {
        if self.record.decisions.is_some() {
            let placed = self.placed(this_cpu, waker, task, prev, sync, answer);
            self.log(this_cpu, What::Wakeup(placed));
        }
    }

    /// A new task was placed.
    #[inline]
    pub(super) fn log_fork(&mut self, this_cpu: usize, parent: TaskId, child: TaskId, cpu: usize) {
        if self.record.decisions.is_some() {
            let answer = (cpu, PlacementRule::Idlest);
            let placed = self.placed(this_cpu, parent, child, this_cpu, false, answer);
            self.log(this_cpu, What::Fork(placed));
        }
    }

    /// A task that executes another program was placed.
    #[inline]
    pub(super) fn log_exec(&mut self, this_cpu: usize, task: TaskId, cpu: usize) {
        if self.record.decisions.is_some() {
            let placed = self.placed(this_cpu, task, task, this_cpu, false, (cpu, PlacementRule::Idlest));
            self.log(this_cpu, What::Exec(placed));
        }
    }

    fn placed(
        &mut self,
        this_cpu: usize,
        waker: TaskId,
        task: TaskId,
        prev: usize,
        sync: bool,
        (cpu, rule): (usize, PlacementRule),
    ) -> Placed {
        let slow_path = self.record.decisions.as_mut().map_or_else(Vec::new, Decisions::take_slow_path);
        let stats = &self.stats;
        let state = |cpu: usize| CpuState {
            idle: stats.idle[cpu],
            nr_running: stats.nr_running[cpu],
            load: stats.load[cpu],
            util: stats.util[cpu],
        };
        let (waker, prev_cpu) = (some_task(waker), prev as u32);
        Placed {
            asked: PlacedAsked {
                task,
                waker,
                prev_cpu,
                sync,
                this: state(this_cpu),
                prev: state(prev),
                slow_path,
            },
            answer: PlacedAnswer { cpu: cpu as u32, rule: rule.name() },
        }
    }

    /// It was decided whether the running task gives way to one that became runnable.
    #[inline]
    pub(super) fn log_preemption(&mut self, cpu: usize, curr: TaskId, task: TaskId, preempt: bool) {
        if self.record.decisions.is_some() {
            let vruntime = |task: TaskId| self.tasks[task as usize].se.vruntime;
            let ahead_ns = vruntime(curr).wrapping_sub(vruntime(task)).cast_signed();
            let asked = PreemptionAsked { curr, task, ahead_ns };
            self.log(cpu, What::Preemption(Preemption { asked, answer: PreemptionAnswer { preempt } }));
        }
    }

    /// It was decided at a tick whether the running task, which is not alone, has had its slice.
    #[inline]
    pub(super) fn log_tick(&mut self, cpu: usize, curr: TaskId, preempt: bool) {
        if self.record.decisions.is_some() {
            let asked = TickAsked { curr, nr_running: self.rqs[cpu].cfs.nr_running };
            self.log(cpu, What::Tick(Tick { asked, answer: PreemptionAnswer { preempt } }));
        }
    }

    /// The next task was picked.
    #[inline]
    pub(super) fn log_pick(&mut self, cpu: usize, prev: TaskId, next: Option<TaskId>) {
        if self.record.decisions.is_some() {
            let nr_running = self.rqs[cpu].cfs.nr_running;
            let asked = PickAsked { prev: some_task(prev), nr_running };
            self.log(cpu, What::Pick(Pick { asked, answer: TaskAnswer { task: next } }));
        }
    }

    /// A balance pass starts.
    #[inline]
    pub(super) fn log_pass_begins(&mut self, cpu: usize, level_number: usize, idle: CpuIdleType) {
        if self.record.decisions.is_some() {
            let level = self.level_name(cpu, level_number);
            let nr_balance_failed = self.sds[cpu][level_number].nr_balance_failed;
            let asked =
                PassAsked { level, level_number, idle: idle.name(), nr_balance_failed, groups: Vec::new() };
            self.log(cpu, What::Balance(Box::new(Pass { asked, answer: PassAnswer::default() })));
        }
    }

    /// A balance pass has looked at the groups, and perhaps chosen one and a CPU in it.
    #[inline]
    pub(super) fn log_groups(
        &mut self,
        cpu: usize,
        level: usize,
        (migration_type, imbalance): (MigrationType, i64),
        busiest: Option<usize>,
        source: Option<usize>,
    ) {
        let topo = self.topo;
        let Some(pass) = self.record.decisions.as_mut().and_then(|decisions| decisions.pass()) else {
            return;
        };
        let sd = &topo.per_cpu[cpu][level];
        let groups = sd.ring.iter().map(|&group| &topo.groups[group].runs);
        pass.asked.groups =
            groups.zip(&self.sg_stats).map(|(runs, stats)| GroupSums::new(runs, stats)).collect();
        let answer = &mut pass.answer;
        answer.group_types = self.sg_stats.iter().map(|stats| stats.group_type.name()).collect();
        answer.busiest = busiest;
        answer.src_cpu = source.map(|cpu| cpu as u32);
        answer.migration_type = busiest.map(|_| migration_type.name());
        answer.imbalance = busiest.map(|_| imbalance);
        answer.outcome = if busiest.is_some() && source.is_none() { "no_source" } else { "" };
    }

    /// A balance pass has taken tasks off its source.
    #[inline]
    pub(super) fn log_pull(&mut self, tasks: &[TaskId], refused: Refusals) {
        if let Some(pass) = self.record.decisions.as_mut().and_then(|decisions| decisions.pass()) {
            pass.answer.pulled(tasks, refused);
        }
    }

    /// A balance pass has asked for a push of the running task.
    #[inline]
    pub(super) fn log_active_balance(&mut self) {
        if let Some(pass) = self.record.decisions.as_mut().and_then(|decisions| decisions.pass()) {
            pass.answer.active_balance = true;
        }
    }

    /// A balance pass has ended.
    #[inline]
    pub(super) fn log_pass_ends(&mut self, outcome: &'static str) {
        if let Some(decisions) = &mut self.record.decisions {
            decisions.end_pass(outcome);
        }
    }

    /// Active balance has chosen a task to push from `cpu`.
    #[inline]
    pub(super) fn log_push(&mut self, cpu: usize, target: usize, task: Option<TaskId>) {
        if self.record.decisions.is_some() {
            let asked = PushAsked { dst_cpu: target as u32 };
            self.log(cpu, What::Push(Push { asked, answer: TaskAnswer { task } }));
        }
    }

    /// NUMA balancing has looked for a place for the running task.
    #[inline]
    pub(super) fn log_numa(&mut self, cpu: usize, asked: NumaAsked, answer: NumaAnswer) {
        if self.record.decisions.is_some() {
            self.log(cpu, What::Numa(NumaPlaced { asked, answer }));
        }
    }

    /// The slow path has looked at the groups of a domain of `cpu`, and perhaps chosen one.
    #[inline]
    pub(super) fn log_idlest(&mut self, cpu: usize, level: usize, idlest: Option<usize>) {
        if self.record.decisions.is_none() {
            return;
        }
        let topo = self.topo;
        let ring = &topo.per_cpu[cpu][level].ring;
        let seen =
            || ring.iter().zip(&self.idlest_stats).filter_map(|(&group, stats)| Some((group, (*stats)?)));
        let choice = IdlestChoice {
            level: self.level_name(cpu, level),
            groups: seen().map(|(group, stats)| GroupSums::new(&topo.groups[group].runs, &stats)).collect(),
            group_types: seen().map(|(_, stats)| stats.group_type.name()).collect(),
            idlest: idlest.map(|index| topo.groups[ring[index]].runs[0].0 as u32),
        };
        if let Some(decisions) = &mut self.record.decisions {
            decisions.push_idlest(choice);
        }
    }

    /// Name of a level of a CPU's hierarchy; one that recurs is numbered, as in the tables of levels.
    fn level_name(&self, cpu: usize, level: usize) -> String {
        let hierarchy = &self.topo.per_cpu[cpu];
        let name = hierarchy[level].name;
        match hierarchy[..=level].iter().filter(|sd| sd.name == name).count() {
            1 => name.to_owned(),
            number => format!("{name}-{number}"),
        }
    }

    fn log(&mut self, cpu: usize, what: What) {
        let time_ns = self.now - START_NS;
        if let Some(decisions) = &mut self.record.decisions {
            decisions.push(time_ns, cpu, what);
        }
    }
}

fn some_task(task: TaskId) -> Option<TaskId> {
    Some(task).filter(|&task| task != NO_TASK)
}
