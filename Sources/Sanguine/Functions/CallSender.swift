import Foundation
import SanguineModel

/// What all sendings of a call have in common.
struct CallSending: Sendable {
    let key: String
    let function: String
    /// The request; `nil` for a call that is only to be found.
    let body: Data?
    /// Whether it is sent until it is answered.
    var isQueued = false
    /// What it costs if too little of its quota is left, as far as that is declared.
    var tokensInstead: Int64?
}

/// How the sendings of a call have failed.
struct CallFailure: Error {
    let verdict: CallAttempts.Verdict
    let error: SanguineError
    var head: Int64?
    var epoch: Epoch?

    /// Whether it has to do with the way to the server, and not with the call.
    var isPassing: Bool {
        guard verdict == .refused || verdict == .unknown else { return false }
        return switch error {
        case .transport(.offline), .transport(.timedOut), .transport(.interrupted),
            .transport(.intercepted):
            true
        case .problem(let problem):
            problem.code == .operationInProgress || problem.code == .rateLimited
                || problem.status == 408 || problem.status >= 500
        default: false
        }
    }
}

/// Sends calls: ``CallAttempts`` decides what a failure means, this sends and waits.
struct CallSender: Sendable {
    let call: ServerCall
    let configuration: SanguineClient.Configuration

    /// Sends a call as often as it takes, and with a short patience.
    ///
    /// - Parameters:
    ///   - sending: The call.
    ///   - attempts: What its sendings have come to so far.
    ///   - take: Takes the answer in.
    /// - Returns: The answer, or why there is none.
    func round(
        _ sending: CallSending,
        _ attempts: inout CallAttempts,
        _ take: (TransportResponse) throws(SanguineError) -> Void
    ) async -> Result<Data, CallFailure> {
        while true {
            let head = HeadNotingTransport(call.exchange.transport)
            var verdict: CallAttempts.Verdict
            let failure: SanguineError
            var random = configuration.random
            do throws(SanguineError) {
                _ = try await call.authorizer.accessToken()
                do throws(SanguineError) {
                    let response = try await send(sending, through: head)
                    try take(response)
                    return .success(response.body)
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
            let (number, epoch) = head.last
            return .failure(
                CallFailure(verdict: verdict, error: failure, head: number, epoch: epoch)
            )
        }
    }

    /// Does what may be done twice, until it is done or no further try would help.
    func repeatedly<Value>(
        _ body: () async throws(SanguineError) -> Value
    ) async throws(SanguineError) -> Value {
        let schedule = RetrySchedule(attempts: BalanceLimits.callAttempts)
        var failures = 0
        while true {
            do throws(SanguineError) {
                return try await body()
            } catch {
                failures += 1
                var random = configuration.random
                let delay = schedule.delay(afterFailures: failures, of: error, using: &random)
                guard let delay, (try? await configuration.delay.sleep(for: delay)) != nil else {
                    throw Task.isCancelled ? .cancelled : error
                }
            }
        }
    }

    private func send(
        _ sending: CallSending,
        through transport: HeadNotingTransport
    ) async throws(SanguineError) -> TransportResponse {
        let noting = ServerCall(
            server: call.server,
            exchange: Exchange(transport: transport, clock: call.exchange.clock),
            authorizer: call.authorizer
        )
        return try await noting.send(try request(sending))
    }

    /// The request of a call, the same each time.
    func request(
        _ sending: CallSending,
        headers: [String: String] = [:]
    ) throws(SanguineError) -> TransportRequest {
        guard let body = sending.body else {
            return try TransportRequest(
                base: call.server,
                path: Self.path(sending.key),
                headers: headers,
                timeout: BalanceLimits.callTimeout
            )
        }
        return try TransportRequest(
            method: "POST",
            base: call.server,
            path: "/v1/functions/\(sending.function)",
            headers: headers.merging(["Idempotency-Key": sending.key]) { $1 },
            json: body,
            timeout: BalanceLimits.callTimeout
        )
    }

    static func path(_ key: String) -> String {
        let allowed = CharacterSet.urlPathAllowed.subtracting(CharacterSet(charactersIn: "/;"))
        return "/v1/calls/\(key.addingPercentEncoding(withAllowedCharacters: allowed) ?? key)"
    }
}

extension SanguineError {
    /// The server's refusal, if it is one.
    var asProblem: Problem? {
        if case .problem(let problem) = self { problem } else { nil }
    }
}
