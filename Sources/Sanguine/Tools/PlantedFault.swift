/// A fault that the simulation plants in the client, or in its app, to show that it finds it.
///
/// No app can ask for one.
package enum PlantedFault: String, CaseIterable, Sendable {
    /// The outbox's file does not note that an operation was sent.
    case losesSendingMark
    /// A sign-out leaves the user's files where they are.
    case keepsFolder
    /// The next user is given what another one has left in their outbox.
    case takesOverAnybodys
    /// A mutation that is sent again carries another idempotency key.
    case sendsUnderAnotherKey
    /// The cache keeps the older of two values that look the same.
    case keepsLookAlike
    /// A write becomes a part of a list although a page under way may not contain it.
    case foldsTooEarly
    /// A list is stored with a write in its rows, and without a note that it contains the write.
    case storesUnnoted

    /// The client takes numbers of a restored copy for those of the lost history.
    case ignoresEpochs
    /// Operations are sent without the arguments that this version of the app does not know.
    case rewritesArguments
    /// The app writes a whole record where it changes one member.
    case writesWholeRecords

    /// Whether the outbox's file does not take it.
    func loses(_ step: OutboxState.Step) -> Bool {
        guard self == .losesSendingMark, case .sending = step else { return false }
        return true
    }
}
