import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// JSON that is written by hand says what a decoder reads.
@Suite("Answer encoder", .bounded)
struct AnswerEncoderTests {
    private func row(_ available: Int64, _ held: Int64, _ head: Int64, _ at: Int64) -> BalanceRow {
        BalanceRow(
            account: .numbered(1),
            head: head,
            available: available,
            held: held,
            seq: head,
            changedAt: Timestamp(millisecondsSince1970: at)
        )
    }

    @Test(arguments: ["tokens", "", "\"", "\\", "a\nb\u{0}", "/", "é", "👩‍👩‍👧", "\u{2028}"])
    func `a balance decodes to the message, whatever the unit is called`(unit: String) throws {
        let encoder = AnswerEncoder(unit: unit)
        for row in [row(97, 3, 412, 1_763_752_719_250), row(0, 0, 1, -1), row(.max, .max, .max, 0)]
        {
            let message = encoder.message(row)
            let json = Data(encoder.json(row).utf8)
            let answer = Answer(encoder.balance(row))

            #expect(try JSONDecoder().decode(Balance.self, from: json) == message)
            #expect(try answer.balance == message)
            #expect(answer.stored.status == 200 && answer.stored.head == row.head)
        }
    }

    @Test func `a balance has the members that an encoder writes, and no other`() throws {
        let encoder = AnswerEncoder(unit: "tokens")
        let row = row(97, 3, 412, 1_763_752_719_250)
        let byHand = try JSONDecoder().decode(
            JSONValue.self,
            from: Data(encoder.json(row).utf8)
        )
        let byEncoder = try JSONDecoder().decode(
            JSONValue.self,
            from: Data(AnswerEncoder.encode(encoder.message(row)))
        )

        #expect(byHand == byEncoder)
    }

    @Test func `a hold decodes to the message, with its balance`() throws {
        let encoder = AnswerEncoder(unit: "tokens")
        let row = row(97, 3, 412, 1_763_752_719_250)
        let hold = HoldRow(
            id: .numbered(5),
            account: .numbered(1),
            amount: 3,
            expiresAt: ManualClock.start,
            reason: "hold"
        )
        let answer = Answer(encoder.hold(hold, row))
        let expected = HoldAnswer(
            hold: Hold(id: hold.id, amount: 3, expiresAt: ManualClock.start),
            balance: encoder.message(row)
        )

        #expect(answer.stored.status == 201 && answer.stored.head == 412)
        #expect(try answer.message() == expected)
        #expect(
            try answer.message(JSONValue.self)
                == JSONDecoder().decode(JSONValue.self, from: Data(AnswerEncoder.encode(expected)))
        )
    }
}
