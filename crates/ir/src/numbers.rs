//! Types for numbers that name things, so that one is not taken for another.

/// Defines identities: types around a `u32`, with what else they derive in the first line.
///
/// ```
/// crashpoint_ir::ids! {
///     derive(Default)
///     /// Index into a list of rooms.
///     RoomId
/// }
/// assert_eq!(RoomId(3).index(), 3);
/// ```
#[macro_export]
macro_rules! ids {
    (derive $also:tt $($(#[$meta:meta])* $name:ident)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive $also]
        pub struct $name(pub u32);

        impl $name {
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}
