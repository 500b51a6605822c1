//! Counts over a recording.

use crashpoint_abi::record::Payload;

/// A struct of counters that can be added up.
macro_rules! counters {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$doc:meta])* pub $field:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl $name {
            pub(crate) fn add(&mut self, other: &$name) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

counters! {
    /// How much was recorded. Counts are of records, before any is split over mappings.
    pub struct Statistics {
        pub stores,
        pub fills,
        pub loads,
        pub flushes,
        pub fences,
        pub opaques,
        pub calls,
        pub returns,
        pub synchronisations,
        pub maps,
        pub unmaps,
        pub msyncs,
        /// Switches between call stacks, and definitions of new ones.
        pub context_switches,
        pub context_definitions,
        /// Bytes of all records of the PM streams, call stacks included, headers not.
        pub pm_bytes,
        /// Bytes of values in stores.
        pub value_bytes,
        pub flow_bytes,
    }
}

impl Statistics {
    pub(crate) fn count(&mut self, payload: &Payload<'_>) {
        let counter = match payload {
            Payload::Store { bytes, .. } => {
                self.value_bytes += bytes.len() as u64;
                &mut self.stores
            }
            Payload::Fill { .. } => &mut self.fills,
            Payload::Load { .. } => &mut self.loads,
            Payload::Flush { .. } => &mut self.flushes,
            Payload::Fence { .. } => &mut self.fences,
            Payload::Opaque => &mut self.opaques,
            Payload::Call { .. } => &mut self.calls,
            Payload::Return { .. } => &mut self.returns,
            Payload::Sync { .. } => &mut self.synchronisations,
            Payload::Map { .. } => &mut self.maps,
            Payload::Unmap { .. } => &mut self.unmaps,
            Payload::Msync { .. } => &mut self.msyncs,
            Payload::Context(_) => &mut self.context_switches,
            Payload::DefineContext { .. } => &mut self.context_definitions,
        };
        *counter += 1;
    }

    /// All ordered events.
    pub fn events(&self) -> u64 {
        self.stores
            + self.fills
            + self.loads
            + self.flushes
            + self.fences
            + self.opaques
            + self.calls
            + self.returns
            + self.synchronisations
            + self.maps
            + self.unmaps
            + self.msyncs
    }

    /// Bytes of the PM streams for each store (fills are stores too), stacks and all other records
    /// included.
    pub fn bytes_per_store(&self) -> Option<f64> {
        let stores = self.stores + self.fills;
        (stores > 0).then(|| self.pm_bytes as f64 / stores as f64)
    }
}
