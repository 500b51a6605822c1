//! From what rules say to what people read: sites become source lines, contexts call stacks,
//! addresses files and offsets.

use std::collections::HashMap;
use std::path::Path;

use crashpoint_ir::ModelId;
use crashpoint_rules as rules;
use crashpoint_trace::program::{Program, ResolvedSite, SourcePlace, function_name};
use crashpoint_trace::{ContextId, Recording, SiteId};

use crate::finding::{FileRange, Finding, Frame, Location, Step, told_at};
use crate::merge::merge;
use crashpoint_program::helpers::{Helpers, is_library};

/// Folders whose code is nobody's to fix: what happens there is told at its caller.
const SYSTEM: [&str; 2] = ["/usr/include/", "/usr/lib/"];

/// Resolves findings of one recording.
pub struct Resolver<'a> {
    recording: &'a Recording,
    program: &'a Program,
    helpers: Helpers,
    /// Helper functions by model.
    binaries: Vec<Option<&'a Path>>,
}

impl<'a> Resolver<'a> {
    pub fn new(recording: &'a Recording, program: &'a Program) -> Resolver<'a> {
        let count = recording.models().len();
        let models = (0..count).filter_map(|index| Some((index, program.model(index)?)));
        Resolver {
            recording,
            program,
            helpers: Helpers::find(models),
            binaries: binaries(recording),
        }
    }

    /// All findings, equal ones merged, sorted by place.
    pub fn findings(&self, findings: &[rules::RuleFinding]) -> Vec<Finding> {
        merge(
            findings
                .iter()
                .map(|finding| self.finding(finding))
                .collect(),
        )
    }

    fn finding(&self, finding: &rules::RuleFinding) -> Finding {
        let stack = self.stack(finding.site, finding.context);
        let location = stack
            .get(told_at(&stack))
            .and_then(|frame| frame.location.clone());
        let history = finding.history.iter().map(|step| self.step(step)).collect();
        let place = (finding.length > 0).then(|| FileRange {
            file: self
                .recording
                .file(finding.place.file())
                .path
                .display()
                .to_string(),
            offset: finding.place.offset(),
            length: finding.length,
        });
        Finding {
            rule: finding.rule.as_str().to_owned(),
            severity: finding.severity,
            count: finding.count,
            total: finding.total,
            message: finding.message.clone(),
            help: finding.help.clone(),
            location,
            stack,
            history,
            place,
            first_order: finding.first_order,
            model: finding.model.to_owned(),
            crash: None,
        }
    }

    fn step(&self, step: &rules::HistoryStep) -> Step {
        let stack = self.stack(step.site, step.context);
        let told = stack.get(told_at(&stack));
        Step {
            what: step.what.clone(),
            location: told.and_then(|frame| frame.location.clone()),
            order: step.order,
            thread: Some(step.thread.0),
        }
    }

    /// Where an event is told: at the innermost frame that is not a helper, or so many frames
    /// further out.
    pub fn location_of(
        &self,
        site: SiteId,
        context: ContextId,
        outwards: usize,
    ) -> Option<Location> {
        let stack = self.stack(site, context);
        let told = stack.get(told_at(&stack) + outwards).or(stack.last())?;
        told.location.clone()
    }

    /// How many frames one has to go outwards to tell two events apart; 0 if their own lines do.
    pub fn frames_in_common(&self, a: (SiteId, ContextId), b: (SiteId, ContextId)) -> usize {
        let line = |frame: &Frame| {
            let at = frame.location.as_ref()?;
            Some((at.file.clone(), at.line))
        };
        let (a, b) = (self.stack(a.0, a.1), self.stack(b.0, b.1));
        let (from_a, from_b) = (
            &a[told_at(&a).min(a.len())..],
            &b[told_at(&b).min(b.len())..],
        );
        let pairs = from_a.iter().zip(from_b);
        let same = pairs.take_while(|(a, b)| line(a) == line(b)).count();
        // Where everything is the same, their own line is all there is.
        if same < from_a.len().min(from_b.len()) {
            same
        } else {
            0
        }
    }

    /// The call stack of an event, innermost first.
    pub fn stack(&self, site: SiteId, context: ContextId) -> Vec<Frame> {
        let callers = self.recording.stack(context).into_iter().rev();
        let mut stack: Vec<Frame> = Vec::new();
        let mut binaries: Vec<Option<&Path>> = Vec::new();
        let mut last_library = None;
        for site in std::iter::once(site).chain(callers) {
            let Some(resolved) = self.program.resolve(site) else {
                stack.extend(unknown(site));
                continue;
            };
            self.push_frames(&resolved, &mut stack);
            binaries.resize(stack.len(), self.binaries[resolved.model]);
            if is_library(&resolved.function.name) {
                last_library = Some(stack.len());
            }
        }
        // What a library's function calls is the library's business too, unless it calls back.
        let inside = last_library.unwrap_or(0);
        let library = inside.checked_sub(1).and_then(|last| binaries[last]);
        for (frame, binary) in stack[..inside].iter_mut().zip(&binaries) {
            frame.helper |= *binary == library;
        }
        stack
    }

    /// The frame of a site; several if code was inlined there before it was instrumented.
    fn push_frames(&self, site: &ResolvedSite<'_>, stack: &mut Vec<Frame>) {
        let places = std::iter::once(&site.place).chain(&site.inlined);
        let outermost = site.inlined.len();
        for (index, place) in places.enumerate() {
            let persists = if index == outermost {
                self.helpers.contains(site.model, site.function_id)
            } else {
                is_library(&place.function)
            };
            let location = self.location(place, site);
            let file = location
                .as_ref()
                .map_or("", |location| location.file.as_str());
            let system = SYSTEM.iter().any(|folder| file.starts_with(folder));
            stack.push(Frame {
                function: place.function.clone(),
                location,
                helper: persists || system,
            });
        }
    }

    /// Where the compiler knows no line, the function's own has to do.
    fn location(&self, place: &SourcePlace<'_>, site: &ResolvedSite<'_>) -> Option<Location> {
        if place.line > 0 {
            return Some(Location {
                file: place.file.to_owned(),
                line: place.line,
                column: place.column,
                function: place.function.clone(),
            });
        }
        let module = self.program.model(site.model)?;
        let location = &module.locations[site.function.location?.index()];
        let known = location.line > 0;
        known.then(|| Location {
            file: module.files[location.file.index()].clone(),
            line: location.line,
            column: location.column,
            function: function_name(site.function),
        })
    }
}

/// The binary that each model of a recording came with.
fn binaries(recording: &Recording) -> Vec<Option<&Path>> {
    let processes = recording.processes().iter();
    let modules: HashMap<ModelId, &Path> = processes
        .flat_map(|process| &process.modules)
        .map(|module| (module.model, module.binary.as_path()))
        .collect();
    let models = recording.models().iter();
    models
        .map(|sites| modules.get(&sites.model).copied())
        .collect()
}

/// A place whose model is missing: its number still tells it from others.
fn unknown(site: SiteId) -> Option<Frame> {
    (site != SiteId::NONE).then(|| Frame {
        function: format!("site {} of an unknown function", site.0),
        location: None,
        helper: false,
    })
}
