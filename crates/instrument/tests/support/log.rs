//! The log of the stub runtime.

use crashpoint_ir::{ModelId, Module, SiteId};
use std::collections::HashMap;
use std::path::Path;

/// A module as it registered.
#[derive(Debug)]
pub struct Registered {
    pub id: ModelId,
    pub base: u32,
    pub count: u32,
}

#[derive(Debug)]
pub struct Event {
    pub kind: String,
    pub thread: u32,
    pub site: u32,
    pub stack: Vec<u32>,
    pub fields: Vec<String>,
}

pub struct Log<'a> {
    pub modules: Vec<Registered>,
    pub events: Vec<Event>,
    /// Frames left at the end of each thread.
    pub depths: Vec<u32>,
    models: &'a HashMap<ModelId, Module>,
}

fn model_id(hex: &str) -> ModelId {
    let byte = |i: usize| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hex");
    ModelId(std::array::from_fn(byte))
}

impl<'a> Log<'a> {
    pub fn read(path: &Path, models: &'a HashMap<ModelId, Module>) -> Log<'a> {
        let text = std::fs::read_to_string(path).expect("the log can be read");
        let mut log = Log {
            modules: Vec::new(),
            events: Vec::new(),
            depths: Vec::new(),
            models,
        };
        for line in text.lines() {
            let mut words = line.split(' ');
            let kind = words.next().expect("a word");
            let mut number = || -> u32 { words.next().expect("a word").parse().expect("a number") };
            match kind {
                "module" => {
                    let words: Vec<&str> = line.split(' ').collect();
                    log.modules.push(Registered {
                        id: model_id(words[1]),
                        base: words[2].parse().expect("a number"),
                        count: words[3].parse().expect("a number"),
                    });
                }
                "depth" => log.depths.push(number()),
                _ => {
                    let (thread, site) = (number(), number());
                    let stack = words.next().expect("a stack");
                    log.events.push(Event {
                        kind: kind.to_owned(),
                        thread,
                        site,
                        stack: stack
                            .split(',')
                            .map(|s| s.parse().expect("a site"))
                            .collect(),
                        fields: words.map(str::to_owned).collect(),
                    });
                }
            }
        }
        log
    }

    /// The model and the site of a number.
    pub fn site(&self, number: u32) -> (&'a Module, SiteId) {
        let module = self
            .modules
            .iter()
            .find(|m| number >= m.base && number < m.base + m.count)
            .unwrap_or_else(|| panic!("site {number} belongs to no module"));
        let model = self
            .models
            .get(&module.id)
            .expect("a registered module is in the binary");
        (model, SiteId(number - module.base))
    }

    /// `function:line` of a site, with those it was inlined into before it; without what lies
    /// outside of the tests' own sources.
    fn places(&self, number: u32) -> Vec<String> {
        let (model, site) = self.site(number);
        let site = &model.sites[site.index()];
        let function = &model.functions[site.function.index()];
        let mut next = match site.instruction {
            None => function.location,
            Some(id) => {
                let mut all = function.blocks.iter().flat_map(|block| &block.instructions);
                all.nth(id.index()).expect("an instruction").location
            }
        };
        let own = function.source_name.as_ref().unwrap_or(&function.name);
        let mut places = Vec::new();
        while let Some(id) = next {
            let location = &model.locations[id.index()];
            let name = location.function.as_ref().unwrap_or(own);
            if model.files[location.file.index()].contains("/programs/") {
                places.insert(0, format!("{name}:{}", location.line));
            }
            next = location.inlined_at;
        }
        places
    }

    /// The events as text: kind, place, fields, and the callers from the outermost.
    pub fn describe(&self) -> Vec<String> {
        self.events
            .iter()
            .map(|event| {
                let (top, callers) = event.stack.split_last().expect("a stack has a top");
                // The top frame belongs to the function that reports.
                let of = |number| {
                    let (model, site) = self.site(number);
                    model.sites[site.index()].function
                };
                assert_eq!(
                    of(event.site),
                    of(*top),
                    "{event:?} reports for another function"
                );
                let mut stack: Vec<String> = callers
                    .iter()
                    .flat_map(|caller| self.places(*caller))
                    .collect();
                stack.extend(self.places(event.site));
                let place = stack.pop().unwrap_or_else(|| "elsewhere".to_owned());
                std::iter::once(event.kind.clone())
                    .chain([place])
                    .chain(
                        event
                            .fields
                            .iter()
                            .filter(|field| !field.is_empty())
                            .cloned(),
                    )
                    .chain(["<".to_owned()])
                    .chain(stack)
                    .collect::<Vec<String>>()
                    .join(" ")
            })
            .collect()
    }
}
