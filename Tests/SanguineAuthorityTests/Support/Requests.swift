import Foundation
import SanguineModel
import SanguineTesting

@testable import SanguineAuthority

extension Submission where Content: Encodable {
    /// Creates a submission as the server does, with a fingerprint of the call and the content.
    init(_ key: String, _ content: Content, call: String = "call") {
        let text = String(decoding: ResponseEncoder.encode(content), as: UTF8.self)
        self.init(key: key, fingerprint: Fingerprint(call, text), content: .success(content))
    }
}

extension Submission where Content == Void {
    init(_ key: String, call: String = "release") {
        self.init(key: key, fingerprint: Fingerprint(call), content: .success(()))
    }
}

extension Submission where Content == CallTerms {
    init(
        _ key: String,
        hold: Int64,
        life: Duration = .seconds(600),
        input: String = "input",
        quota: Price.QuotaPrice? = nil,
        unavailable: Problem? = nil
    ) {
        self.init(
            key: key,
            fingerprint: Fingerprint("ask", input),
            content: .success(
                CallTerms(
                    operation: Identifier(at: ManualClock.start),
                    function: "ask",
                    hold: hold,
                    quota: quota,
                    life: life,
                    unavailable: unavailable
                )
            )
        )
    }
}

extension Submission {
    /// Creates a submission whose content was invalid before the lookup of its key.
    init(_ key: String, refused problem: Problem) {
        self.init(key: key, fingerprint: Fingerprint("refused"), content: .failure(problem))
    }
}

extension Answer {
    /// Decodes the body as a message.
    func message<Message: Decodable>(_ type: Message.Type = Message.self) throws -> Message {
        try JSONDecoder().decode(type, from: Data(stored.body))
    }

    /// The balance in the body.
    var balance: Balance {
        get throws { try message(BalanceAnswer.self).balance }
    }
}

extension CallStart {
    /// The accepted call, or `nil` if the answer was replayed.
    var call: AcceptedCall? {
        guard case .accepted(let call) = self else { return nil }
        return call
    }
}

extension Identifier {
    /// Returns an id that is the same in every run, in no particular order.
    static func numbered(_ number: UInt64) -> Identifier {
        var random = SplitMix64(seed: number)
        return Identifier(at: ManualClock.start, using: &random)
    }
}

extension CallCommands {
    /// Creates the commands of an authority with the default quota.
    init(now: Timestamp) {
        self.init(now: now, quotas: QuotaCommands(limits: ["readings": 3], now: now))
    }
}

extension LedgerCommands {
    init(at now: Timestamp = ManualClock.start) {
        self.init(encoder: ResponseEncoder(unit: "tokens"), now: now, holdLife: .seconds(600))
    }
}

/// Returns the problem that a closure throws, or `nil` if it throws none.
func problem<Value>(_ body: () async throws(Problem) -> Value) async -> Problem? {
    do {
        _ = try await body()
        return nil
    } catch {
        return error
    }
}

/// The synchronous form of ``problem(_:)-async``.
func refusal<Value>(_ body: () throws(Problem) -> Value) -> Problem? {
    do {
        _ = try body()
        return nil
    } catch {
        return error
    }
}
