/// A stored type that declares which values stand in for members that stored data lacks.
///
/// Adopt it when a type that is already in use gets a member: Swift's synthesized decoding ignores
/// the default of a property, so data of an earlier version cannot be decoded without it.
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
/// It works for records, for the arguments of mutations of both kinds, for the inputs of functions,
/// and for values that queries keep on disk; on the client and on the server; for the type itself,
/// and for members, elements and values by names that are of the type.
///
/// A member that is missing, or `null` where the type needs a value, takes the value that
/// ``defaults`` has in the same place, also inside of nested objects. An optional member that is
/// missing is `nil`. Where a type with defaults is inside of another one with defaults, those of
/// the outer one count first. In a record, the default also stands in for a value that a member
/// does not know, such as a later case of an enumeration; for an optional member without a default
/// that is `nil`. What is stored stays as it is until a mutation changes that member. Elements of
/// arrays take defaults of their own type only.
public protocol Defaulted: Codable, Sendable {
    /// An instance whose members are the defaults.
    ///
    /// It is encoded once. A record's id in it has no meaning.
    static var defaults: Self { get }
}

/// A stored type that rewrites what earlier versions of it have stored.
///
/// ```swift
/// extension Habit: Migrated {
///     static func migrate(_ members: inout [String: JSONValue]) {
///         if members["title"] == nil { members["title"] = members.removeValue(forKey: "name") }
///     }
/// }
/// ```
///
/// For a member that was renamed, or has another type now. It works in the same places as
/// ``Defaulted``, and comes before it.
public protocol Migrated: Codable {
    /// Changes members that an earlier version has stored to what the type decodes.
    ///
    /// Called whenever stored data is read, on any thread, also for data of the current version: it
    /// leaves what it does not recognize, and gives the same result when it is called again. What
    /// it returns for a record is stored when a mutation sets that record.
    ///
    /// - Parameter members: The members of the stored object; of a stored record those without its
    ///   id.
    /// - Throws: An error if the data cannot be migrated; it is then treated as unreadable.
    static func migrate(_ members: inout [String: JSONValue]) throws
}
