/// What the user did to records, as code that runs on both ends: on the client at once, on the
/// server for good.
///
/// ```swift
/// struct CompleteHabit: RecordMutation {
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
/// It is deterministic: it sees its own members, the records and
/// ``Records/operation``, and nothing else; no clock, no random number, no global. So running it
/// again over newer records gives what the user meant, and ten taps that mean the same make one
/// record.
///
/// Whatever the lanes: an operation waits for those before it that touched the same records.
public protocol RecordMutation: Mutation {
    /// Changes the records.
    ///
    /// - Throws: ``Refusal`` if it cannot be done: then nothing of it is.
    func apply(to records: inout Records) throws
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
