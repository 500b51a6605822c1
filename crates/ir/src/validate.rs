//! Checks that a module holds together: every id is in range, values and sites are numbered as
//! the model says, types and inlining chains end.
//!
//! Types of operands are not checked; whoever walks a type along constant indices must expect an
//! index that does not fit.

use crate::{Block, Callee, Constant, Function, Inst, Module, Op, Operand, Type};

/// The first thing found wrong with a module.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct Invalid {
    /// Which part of the module.
    pub place: String,
    pub problem: String,
}

fn invalid(place: impl Into<String>, problem: impl Into<String>) -> Invalid {
    Invalid {
        place: place.into(),
        problem: problem.into(),
    }
}

impl Module {
    pub fn validate(&self) -> Result<(), Invalid> {
        let check = Check { module: self };
        check.types()?;
        check.layouts()?;
        check.locations()?;
        for global in &self.globals {
            let place = || format!("global {}", global.name);
            check.ty(global.ty.0, place)?;
            check.location(global.location.map(|id| id.0), place)?;
            for function in &global.functions {
                check.range(function.0, self.functions.len(), "function", place)?;
            }
        }
        self.functions
            .iter()
            .enumerate()
            .try_for_each(|(id, f)| check.function(id, f))?;
        check.sites()
    }
}

/// Fails if some index reaches itself along `next`, whose answers must be in range.
fn acyclic(count: usize, what: &str, next: impl Fn(usize) -> Vec<usize>) -> Result<(), Invalid> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; count];
    for root in 0..count {
        if marks[root] != Mark::New {
            continue;
        }
        marks[root] = Mark::Open;
        let mut path = vec![(root, next(root))];
        while let Some((index, rest)) = path.last_mut() {
            match rest.pop() {
                None => {
                    marks[*index] = Mark::Done;
                    path.pop();
                }
                Some(child) => match marks[child] {
                    Mark::Done => {}
                    Mark::Open => {
                        return Err(invalid(format!("{what} {child}"), "contains itself"));
                    }
                    Mark::New => {
                        marks[child] = Mark::Open;
                        path.push((child, next(child)));
                    }
                },
            }
        }
    }
    Ok(())
}

struct Check<'a> {
    module: &'a Module,
}

impl Check<'_> {
    fn range(
        &self,
        id: u32,
        count: usize,
        what: &str,
        place: impl Fn() -> String,
    ) -> Result<(), Invalid> {
        if (id as usize) < count {
            return Ok(());
        }
        Err(invalid(
            place(),
            format!("refers to {what} {id} of {count}"),
        ))
    }

    fn ty(&self, id: u32, place: impl Fn() -> String) -> Result<(), Invalid> {
        self.range(id, self.module.types.len(), "type", place)
    }

    fn location(&self, id: Option<u32>, place: impl Fn() -> String) -> Result<(), Invalid> {
        id.map_or(Ok(()), |id| {
            self.range(id, self.module.locations.len(), "location", place)
        })
    }

    fn layout(&self, id: Option<u32>, place: impl Fn() -> String) -> Result<(), Invalid> {
        id.map_or(Ok(()), |id| {
            self.range(id, self.module.layouts.len(), "layout", place)
        })
    }

    fn types(&self) -> Result<(), Invalid> {
        let types = &self.module.types;
        let parts = |ty: &Type| -> Vec<usize> {
            match ty {
                Type::Void
                | Type::Integer { .. }
                | Type::Float { .. }
                | Type::Pointer { .. }
                | Type::Other(_) => Vec::new(),
                Type::Array { element, .. } | Type::Vector { element, .. } => vec![element.index()],
                Type::Struct { fields, .. } => fields.iter().map(|f| f.ty.index()).collect(),
                Type::Function {
                    result, parameters, ..
                } => std::iter::once(result)
                    .chain(parameters)
                    .map(|ty| ty.index())
                    .collect(),
            }
        };
        for (id, ty) in types.iter().enumerate() {
            let place = || format!("type {id}");
            for part in parts(ty) {
                self.ty(part as u32, place)?;
            }
            if let Type::Struct { layout, .. } = ty {
                self.layout(layout.map(|id| id.0), place)?;
            }
        }
        acyclic(types.len(), "type", |id| parts(&types[id]))
    }

    fn layouts(&self) -> Result<(), Invalid> {
        let layouts = &self.module.layouts;
        for layout in layouts {
            let place = || format!("layout {}", layout.name);
            self.location(layout.location.map(|id| id.0), place)?;
            for member in &layout.members {
                self.layout(member.composite.map(|id| id.0), place)?;
                self.layout(member.points_to.map(|id| id.0), place)?;
            }
        }
        acyclic(layouts.len(), "layout", |id| {
            let members = layouts[id].members.iter();
            members
                .filter_map(|member| member.composite)
                .map(|id| id.index())
                .collect()
        })
    }

    fn locations(&self) -> Result<(), Invalid> {
        let locations = &self.module.locations;
        for (id, location) in locations.iter().enumerate() {
            let place = || format!("location {id}");
            self.range(location.file.0, self.module.files.len(), "file", place)?;
            self.location(location.inlined_at.map(|id| id.0), place)?;
        }
        acyclic(locations.len(), "location", |id| {
            locations[id]
                .inlined_at
                .iter()
                .map(|id| id.index())
                .collect()
        })
    }

    fn function(&self, id: usize, function: &Function) -> Result<(), Invalid> {
        let place = || format!("function {}", function.name);
        self.location(function.location.map(|id| id.0), place)?;
        self.ty(function.result.0, place)?;
        for parameter in &function.parameters {
            self.ty(parameter.ty.0, place)?;
        }
        if let Some(site) = function.site {
            self.site(site.0, id, None, place)?;
        }
        let mut values = function.parameters.len();
        let mut instructions = 0;
        for (number, block) in function.blocks.iter().enumerate() {
            let place = || format!("function {}, block {number}", function.name);
            Self::shape(block).map_err(|problem| invalid(place(), problem))?;
            for inst in &block.instructions {
                self.head(inst, place)?;
                if let Some(site) = inst.site {
                    self.site(site.0, id, Some(instructions), place)?;
                }
                if let Some(result) = inst.result {
                    if result.index() != values {
                        let problem = format!("value {} should be number {values}", result.0);
                        return Err(invalid(place(), problem));
                    }
                    values += 1;
                }
                instructions += 1;
            }
        }
        for (number, block) in function.blocks.iter().enumerate() {
            let place = || format!("function {}, block {number}", function.name);
            for inst in &block.instructions {
                self.op(&inst.op, values, function, place)?;
            }
        }
        Ok(())
    }

    fn shape(block: &Block) -> Result<(), &'static str> {
        let Some((last, others)) = block.instructions.split_last() else {
            return Err("is empty");
        };
        if others.iter().any(|inst| inst.op.successors().is_some()) {
            return Err("goes on after its terminator");
        }
        match last.op.successors() {
            Some(_) => Ok(()),
            // `cleanupret unwind to caller` and the like leave the function.
            None if matches!(last.op, Op::Opaque { .. }) => Ok(()),
            None => Err("does not end with a terminator"),
        }
    }

    fn head(&self, inst: &Inst, place: impl Fn() -> String) -> Result<(), Invalid> {
        self.ty(inst.ty.0, &place)?;
        self.location(inst.location.map(|id| id.0), place)
    }

    /// A site and what it stands for must name each other.
    fn site(
        &self,
        site: u32,
        function: usize,
        instruction: Option<usize>,
        place: impl Fn() -> String,
    ) -> Result<(), Invalid> {
        self.range(site, self.module.sites.len(), "site", &place)?;
        let entry = &self.module.sites[site as usize];
        let same = entry.function.index() == function
            && entry.instruction.map(|id| id.index()) == instruction;
        if same {
            Ok(())
        } else {
            Err(invalid(place(), format!("site {site} is another place")))
        }
    }

    fn sites(&self) -> Result<(), Invalid> {
        let functions = &self.module.functions;
        let counts: Vec<usize> = functions
            .iter()
            .map(|function| {
                function
                    .blocks
                    .iter()
                    .map(|block| block.instructions.len())
                    .sum()
            })
            .collect();
        for (id, site) in self.module.sites.iter().enumerate() {
            let place = || format!("site {id}");
            self.range(site.function.0, functions.len(), "function", place)?;
            if let Some(inst) = site.instruction {
                self.range(inst.0, counts[site.function.index()], "instruction", place)?;
            }
        }
        Ok(())
    }

    fn op(
        &self,
        op: &Op,
        values: usize,
        function: &Function,
        place: impl Fn() -> String,
    ) -> Result<(), Invalid> {
        let block = |id: u32| self.range(id, function.blocks.len(), "block", &place);
        let mut result = Ok(());
        op.for_each_operand(|operand| {
            if result.is_ok() {
                result = match operand {
                    Operand::Value(id) => self.range(id.0, values, "value", &place),
                    Operand::Constant(constant) => self.constant(constant, &place),
                };
            }
        });
        result?;
        for successor in op.successors().unwrap_or_default() {
            block(successor.0)?;
        }
        match op {
            Op::Alloca { allocated: ty, .. } | Op::Address { source: ty, .. } => {
                self.ty(ty.0, &place)?;
            }
            Op::Phi { incoming } => incoming.iter().try_for_each(|(from, _)| block(from.0))?,
            Op::Switch { cases, .. } => {
                cases
                    .iter()
                    .try_for_each(|(value, _)| self.constant(value, &place))?;
            }
            _ => {}
        }
        match op.callee() {
            Some(Callee::Direct(id)) => {
                self.range(id.0, self.module.functions.len(), "function", &place)?;
            }
            Some(Callee::Assembly { effects, .. }) => {
                let count = op.arguments().map_or(0, <[Operand]>::len);
                for argument in effects.iter().filter_map(|effect| effect.argument()) {
                    self.range(argument, count, "argument", &place)?;
                }
            }
            Some(Callee::Indirect(_)) | None => {}
        }
        Ok(())
    }

    fn constant(&self, constant: &Constant, place: impl Fn() -> String) -> Result<(), Invalid> {
        let functions = &self.module.functions;
        let mut result = Ok(());
        constant.for_each(&mut |constant| {
            if result.is_err() {
                return;
            }
            result = match constant {
                Constant::Zero(ty) | Constant::Aggregate { ty, .. } => self.ty(ty.0, &place),
                Constant::Global { global, .. } => {
                    self.range(global.0, self.module.globals.len(), "global", &place)
                }
                Constant::Function(id) => self.range(id.0, functions.len(), "function", &place),
                Constant::Block { function, block } => self
                    .range(function.0, functions.len(), "function", &place)
                    .and_then(|()| {
                        let blocks = functions[function.index()].blocks.len();
                        self.range(block.0, blocks, "block", &place)
                    }),
                Constant::Integer { .. }
                | Constant::WideInteger { .. }
                | Constant::Float { .. }
                | Constant::Null
                | Constant::Undef
                | Constant::Poison
                | Constant::Data(_)
                | Constant::Text(_) => Ok(()),
            };
        });
        result
    }
}
