/// A stored type that declares defaults for members that stored data lacks.
///
/// Adopt it when a type that is already in use gets a new member: Swift's synthesized decoding
/// ignores the default of a property, so data of an earlier version could not be decoded.
///
/// ```swift
/// struct Habit: SyncedRecord, Defaulted {
///     static let collection = RecordCollection("habits")
///     static let defaults = Habit(id: .new(), title: "")
///     let id: RecordID
///     var title: String
///     var streak = 0
/// }
/// ```
///
/// Defaults apply to records, to the arguments of mutations of both kinds, to the inputs of
/// functions, and to query values on disk, both on the client and on the server. They apply to the
/// type itself, and to members, elements and dictionary values of the type.
///
/// A member that is missing, or `null` where the type needs a value, takes the value that
/// ``defaults`` has at the same position, also inside nested objects. An optional member that is
/// missing is `nil`. If a type with defaults contains another type with defaults, the outer type's
/// defaults take precedence. In a record, the default also replaces a value that a member does not
/// recognize, such as a later case of an enumeration; an optional member without a default becomes
/// `nil`. The stored value does not change until a mutation sets that member. Elements of arrays
/// use only the defaults of their own type.
public protocol Defaulted: Codable, Sendable {
    /// An instance whose members are the defaults.
    ///
    /// It is encoded once. The id of a record in it is ignored.
    static var defaults: Self { get }
}

/// A stored type that converts data of its earlier versions.
///
/// ```swift
/// extension Habit: Migrated {
///     static func migrate(_ members: inout [String: JSONValue]) {
///         if members["title"] == nil { members["title"] = members.removeValue(forKey: "name") }
///     }
/// }
/// ```
///
/// Use it for a member that was renamed, or that changed its type. It applies in the same places as
/// ``Defaulted``, and runs first.
public protocol Migrated: Codable {
    /// Converts members that an earlier version stored to those that the type decodes.
    ///
    /// It is called whenever stored data is read, on any thread, also for data of the current
    /// version. It must leave unrecognized members unchanged, and return the same result when
    /// called again. The result for a record is stored when a mutation sets that record.
    ///
    /// - Parameter members: The members of the stored object, for a record without its id.
    /// - Throws: An error if the data cannot be migrated, which makes it unreadable.
    static func migrate(_ members: inout [String: JSONValue]) throws
}
