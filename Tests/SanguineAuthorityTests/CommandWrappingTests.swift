import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Wrapped commands", .bounded)
struct CommandWrappingTests {
    /// A long command would otherwise not let short ones overtake it.
    @Test func `a long command remains long in every wrapper`() {
        var command = Command<Int>(keys: [.balance(Identifier(at: ManualClock.start))]) { _ in
            Decision(1)
        }
        command.isLong = true
        let note = AuditNote(actor: "a", role: "owner", action: "b", account: nil, reason: "c")
        #expect(command.audited(note, at: ManualClock.start).isLong)
        #expect(command.refusingDeleted.isLong)
        #expect(command.withoutEvents.isLong)
        #expect(command.recordingHeads([], RecordSchema()).isLong)
    }
}
