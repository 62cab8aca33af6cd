import Foundation
import SanguineModel
import Synchronization

/// Makes metered calls: shows the hold, stores it, sends, and sees each call through to its end.
///
/// A call runs in a task of its own. A caller who is cancelled stops waiting; the call is seen
/// through all the same, because the server charges for it all the same.
struct FunctionCaller: Sendable {
    let call: ServerCall
    let balance: BalanceKeeper
    let configuration: SanguineClient.Configuration

    /// What all sendings of a call have in common.
    private struct Sending: Sendable {
        let key: String
        let function: String
        let body: Data
    }

    /// Begins a call.
    ///
    /// When this returns the balance shows its hold; nothing has been waited for.
    ///
    /// - Throws: ``SanguineError`` if the call was not begun; then nothing was changed.
    func begin<Call: FunctionCall>(
        _ function: Call
    ) throws(SanguineError) -> OneShot<FunctionResult<Call.Output>> {
        if let refusal = configuration.refusal { throw refusal }
        guard call.server != nil else { throw .notConfigured("'server'") }
        let body: Data
        do {
            body = try WireCoding.encode(FunctionRequest(input: function.input))
        } catch {
            throw .decoding("the input of '\(Call.name)' cannot be encoded: \(error)")
        }
        var random = configuration.random
        let sending = Sending(
            key: Identifier(at: configuration.clock.now(), using: &random).description,
            function: Call.name,
            body: body
        )
        try balance.began(
            sending.key,
            of: Call.name,
            expectedCost: Call.expectedCost
        )
        let outcome = OneShot<FunctionResult<Call.Output>>()
        Task {
            // Stored before it is sent: a kill from here on does not lose the hold.
            balance.persist()
            outcome.resolve(await run(sending))
        }
        return outcome
    }

    private func run<Output: Codable & Sendable>(
        _ sending: Sending
    ) async -> Result<FunctionResult<Output>, SanguineError> {
        var attempts = CallAttempts()
        while true {
            let head = HeadNotingTransport(call.exchange.transport)
            var verdict: CallAttempts.Verdict
            let failure: SanguineError
            var random = configuration.random
            do throws(SanguineError) {
                _ = try await call.authorizer.accessToken()
                do throws(SanguineError) {
                    return try answered(try await send(sending, through: head), sending)
                } catch {
                    failure = error
                    verdict = attempts.failed(error, using: &random)
                }
            } catch {
                failure = error
                verdict = attempts.notSent()
            }
            if case .again(let delay) = verdict {
                if (try? await configuration.delay.sleep(for: delay)) != nil { continue }
                verdict = .unknown
            }
            return .failure(ended(sending, verdict, failure, head: head.last))
        }
    }

    private func send(
        _ sending: Sending,
        through transport: HeadNotingTransport
    ) async throws(SanguineError) -> TransportResponse {
        let noting = ServerCall(
            server: call.server,
            exchange: Exchange(transport: transport, clock: call.exchange.clock),
            authorizer: call.authorizer
        )
        let request = try TransportRequest(
            method: "POST",
            base: call.server,
            path: "/v1/functions/\(sending.function)",
            headers: ["Idempotency-Key": sending.key],
            json: sending.body,
            timeout: BalanceLimits.callTimeout
        )
        return try await noting.send(request)
    }

    /// Settles the balance first, from its part of the answer: an output that the app declared
    /// otherwise costs all the same.
    private func answered<Output: Codable & Sendable>(
        _ response: TransportResponse,
        _ sending: Sending
    ) throws(SanguineError) -> Result<FunctionResult<Output>, SanguineError> {
        let charge = try WireCoding.decode(Charge.self, from: response.body)
        let now = configuration.clock.now()
        balance.ended { state in
            state.answered(sending.key, function: sending.function, charge.answer, at: now)
        }
        try call.authorizer.check()
        do throws(SanguineError) {
            return .success(
                try WireCoding.decode(FunctionResult<Output>.self, from: response.body)
            )
        } catch {
            return .failure(error)
        }
    }

    private func ended(
        _ sending: Sending,
        _ verdict: CallAttempts.Verdict,
        _ failure: SanguineError,
        head: Int64?
    ) -> SanguineError {
        balance.ended { state in
            switch verdict {
            case .refused: state.refused(sending.key)
            case .released: state.released(sending.key, head: head)
            case .charged, .unknown, .again: state.gaveUp(sending.key)
            }
        }
        guard verdict == .unknown else { return failure }
        switch failure {
        case .userChanged, .closed, .cancelled, .decoding: return failure
        default: return .outcomeUnknown(operation: sending.key)
        }
    }
}

/// The part of a function's answer that does not depend on the function.
private struct Charge: Decodable {
    let charged: Int64
    let tokensRemaining: Int64
    let held: Int64
    let head: Int64
    let cached: Bool

    var answer: CallAnswer {
        CallAnswer(
            charged: charged,
            available: tokensRemaining,
            held: held,
            head: head,
            cached: cached
        )
    }
}

/// Notes the `Sanguine-Head` of answers, refusals among them, and passes everything on.
private final class HeadNotingTransport: HTTPTransport {
    private let transport: any HTTPTransport
    // The only mutable state, guarded by the mutex.
    private let noted = Mutex<Int64?>(nil)

    init(_ transport: any HTTPTransport) { self.transport = transport }

    /// The last answer's number, or `nil` if it had none.
    var last: Int64? { noted.withLock { $0 } }

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        let response = try await transport.send(request)
        let head = response.header("sanguine-head").flatMap { Int64($0) }
        noted.withLock { $0 = head }
        return response
    }
}
