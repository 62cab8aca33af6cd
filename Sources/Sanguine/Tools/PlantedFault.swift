/// A fault that the simulation plants in the client, or in its app, to prove that it detects it.
///
/// Apps cannot set one.
package enum PlantedFault: String, CaseIterable, Sendable {
    /// The outbox's file does not record that an operation was sent.
    case losesSendingMark
    /// A sign-out does not remove the user's files.
    case keepsFolder
    /// The next user takes over the previous user's operations.
    case takesOverAnybodys
    /// A mutation that is sent again has another idempotency key.
    case sendsUnderAnotherKey
    /// The cache keeps the older of two values that look the same.
    case keepsLookAlike
    /// A write is merged into a list although a page in flight may not contain it.
    case foldsTooEarly
    /// A list is stored with a write in its rows, but without a record that it contains the write.
    case storesUnnoted

    /// The client takes numbers of a restored copy for those of the lost history.
    case ignoresEpochs
    /// Operations are sent without the arguments that this version of the app does not know.
    case rewritesArguments
    /// The app writes a whole record to change one member.
    case writesWholeRecords
    /// A question of this device stays in its thread when the feed has brought it.
    case showsQuestionsTwice

    /// The session of a registered user counts as a guest's, which the device's secret begins
    /// again.
    case forgetsRegistration
    /// A sign-in to another account continues with the data of the former user.
    case adoptsAnyAccount
    /// The deletion of an account keeps the account's operations on the device.
    case keepsDeletedOperations

    /// Returns whether the outbox's file ignores the step.
    func loses(_ step: OutboxState.Step) -> Bool {
        guard self == .losesSendingMark, case .sending = step else { return false }
        return true
    }
}
