/// An operation on records that runs the same code twice: on the client at once, and on the server
/// for the authoritative result.
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
/// It is deterministic: it uses only its own members, the records and ``Records/operation``, and no
/// clock, random number or global. So running it again on newer records gives the intended result,
/// and ten identical taps create one record.
///
/// In any lane, an operation waits for earlier operations that touched the same records.
public protocol RecordMutation: Mutation {
    /// Changes the records.
    ///
    /// - Throws: ``Refusal`` if the operation cannot be applied; none of its changes are then
    ///   applied.
    func apply(to records: inout Records) throws
}

/// The properties of an operation, identical on client and server.
public struct OperationContext: Hashable, Sendable {
    /// The operation's id, a UUIDv7, which is also its idempotency key.
    public let id: Identifier

    /// The time at which the operation was created, according to its device's clock.
    public var moment: Timestamp { id.moment }

    /// Creates the context.
    public init(id: Identifier) { self.id = id }
}
