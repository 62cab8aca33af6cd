/// A fault that the simulation plants in the client, to show that it finds it.
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

    /// Whether the outbox's file does not take it.
    func loses(_ step: OutboxState.Step) -> Bool {
        guard self == .losesSendingMark, case .sending = step else { return false }
        return true
    }
}
