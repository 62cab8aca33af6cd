/// What the user did, as code that runs on both ends: on the client at once, on the server for
/// good.
///
/// ```swift
/// struct CompleteHabit: Mutator {
///     static let name = "habit.complete"
///     let habit: RecordID
///     let day: CalendarDay
///
///     func apply(to records: inout Records) throws {
///         let id = try RecordID(derivedFrom: habit, day)
///         records.set(Log(id: id, habit: habit, day: day))
///     }
/// }
///
/// try client.perform(CompleteHabit(habit: habit.id, day: today))
/// ```
///
/// A mutator is deterministic: it sees its own members, the records and
/// ``Records/operation``, and nothing else; no clock, no random number, no global. So running it
/// again over newer records gives what the user meant, and ten taps that mean the same make one
/// record.
public protocol Mutator: Codable, Sendable {
    /// The name under which it travels: 1 to 64 visible ASCII characters, such as `habit.complete`.
    static var name: String { get }

    /// The line in which it waits.
    ///
    /// Operations of one lane are done in their order, those of others at the same time. Whatever
    /// the lanes: an operation waits for those before it that touched the same records. 1 to 256
    /// printable characters. Default: `main`.
    var lane: String { get }

    /// Changes the records.
    ///
    /// - Throws: ``Refusal`` if it cannot be done: then nothing of it is.
    func apply(to records: inout Records) throws
}

extension Mutator {
    /// `main`.
    public var lane: String { "main" }
}

/// What an operation knows of itself, the same on both ends.
public struct OperationContext: Hashable, Sendable {
    /// The operation's id, a UUIDv7; also its idempotency key.
    public let id: Identifier

    /// When the operation was made, by the clock of the device that made it.
    public var moment: Timestamp { id.moment }

    /// Creates the context.
    public init(id: Identifier) { self.id = id }
}
