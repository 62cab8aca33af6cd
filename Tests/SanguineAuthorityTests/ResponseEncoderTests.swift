import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// The hand-written JSON encodings.
@Suite("Answer encoder", .bounded)
struct ResponseEncoderTests {
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
    func `a balance decodes to the message, regardless of the name of its unit`(unit: String) throws
    {
        let encoder = ResponseEncoder(unit: unit)
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

    @Test func `a balance has exactly the members that an encoder writes`() throws {
        let encoder = ResponseEncoder(unit: "tokens")
        let row = row(97, 3, 412, 1_763_752_719_250)
        let byHand = try JSONDecoder().decode(
            JSONValue.self,
            from: Data(encoder.json(row).utf8)
        )
        let byEncoder = try JSONDecoder().decode(
            JSONValue.self,
            from: Data(ResponseEncoder.encode(encoder.message(row)))
        )

        #expect(byHand == byEncoder)
    }

    @Test func `a hold decodes to the message, with its balance`() throws {
        let encoder = ResponseEncoder(unit: "tokens")
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
                == JSONDecoder().decode(
                    JSONValue.self,
                    from: Data(ResponseEncoder.encode(expected))
                )
        )
    }

    /// Encodes a value with Foundation's encoder.
    private func encoded(_ value: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(value), as: UTF8.self)
    }

    private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    @Test(arguments: 1...20)
    func `hand-written JSON equals the output of Foundation's encoder`(
        seed: UInt64
    ) throws {
        var random = SplitMix64(seed: seed)
        for _ in 0..<200 {
            let value = JSONValue.any(&random)
            let parts = (0..<Int.random(in: 0...3, using: &random)).map { _ in
                JSONValue.anyText(&random)
            }
            var request = FunctionRequest(input: value)
            if Bool.random(using: &random) { request.thread = .numbered(seed) }
            if Bool.random(using: &random) { request.attachments = parts }
            let delta = FunctionDelta(text: parts.joined())

            #expect(text(ResponseEncoder.encode(value)) == (try encoded(value)))
            #expect(text(ResponseEncoder.encode(parts)) == (try encoded(parts)))
            #expect(text(ResponseEncoder.encode(request)) == (try encoded(request)))
            #expect(text(ResponseEncoder.encode(delta)) == (try encoded(delta)))
        }
        #expect(random.next() != seed)
    }

    @Test(arguments: [0.0, -0.0, 1, -1, 1e15, 1e16, 1e21, 0.1, .leastNonzeroMagnitude, .pi])
    func `a number from code is encoded as by Foundation's encoder`(
        number: Double
    ) throws {
        let value = JSONValue.number(number)
        #expect(text(ResponseEncoder.encode(value)) == (try encoded(value)))
    }
}
