import Foundation
import SanguineModel

/// The data that all requests of a call share.
struct CallRequest: Sendable {
    let key: String
    let function: String
    /// The request body; `nil` for a call that is only looked up.
    let body: Data?
    /// Whether it is sent until it is answered.
    var isQueued = false
    /// Its declared cost in tokens if its quota is used up.
    var tokensInstead: Int64?
    /// Its question and answer in a thread; `nil` for a call without one.
    var exchange: PendingExchange?
}

/// The failure of a call's requests.
struct CallFailure: Error {
    let verdict: CallRetryState.Verdict
    let error: SanguineError
    var head: Int64?
    var epoch: Epoch?

    /// Whether the cause is the connection to the server or the end of the session, and not the
    /// call.
    var isPassing: Bool {
        guard verdict == .refused || verdict == .unknown else { return false }
        return switch error {
        case .transport(.offline), .transport(.timedOut), .transport(.interrupted),
            .transport(.intercepted):
            true
        case .problem(let problem):
            problem.code == .operationInProgress || problem.code == .rateLimited
                || problem.code == .sessionEnded || problem.code == .guestRegistered
                || problem.status == 408 || problem.status >= 500
        default: false
        }
    }
}

/// Sends calls: ``CallRetryState`` decides what a failure means, this type sends and waits.
struct CallSender: Sendable {
    let call: ServerCall
    let configuration: SanguineClient.Configuration
    /// Replaces the time limits of functions.
    var switches: SwitchBoard?
    /// Logs retries.
    var steps: StepLog?

    /// Sends a call with a few retries.
    ///
    /// - Parameters:
    ///   - sending: The call.
    ///   - attempts: The state of its attempts so far.
    ///   - take: Processes the answer.
    /// - Returns: The answer, or the failure.
    func round(
        _ sending: CallRequest,
        _ attempts: inout CallRetryState,
        _ take: (TransportResponse) throws(SanguineError) -> Void
    ) async -> Result<Data, CallFailure> {
        while true {
            let head = HeadRecordingTransport(call.exchange.transport)
            var verdict: CallRetryState.Verdict
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
                steps?.log(
                    .retried,
                    .call(sending.function, key: sending.key),
                    code: failure.metricsCode
                )
                if (try? await configuration.delay.sleep(for: delay)) != nil { continue }
                verdict = .unknown
            }
            let (number, epoch) = head.last
            return .failure(
                CallFailure(verdict: verdict, error: failure, head: number, epoch: epoch)
            )
        }
    }

    /// Repeats an idempotent request until it succeeds or another attempt would not help.
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
        _ sending: CallRequest,
        through transport: HeadRecordingTransport
    ) async throws(SanguineError) -> TransportResponse {
        let noting = ServerCall(
            server: call.server,
            exchange: Exchange(transport: transport, clock: call.exchange.clock),
            authorizer: call.authorizer
        )
        return try await noting.send(try request(sending))
    }

    /// Returns the request of a call, the same each time except for its time limit.
    func request(
        _ sending: CallRequest,
        headers: [String: String] = [:]
    ) throws(SanguineError) -> TransportRequest {
        let switched = switches?.timeout(ofFunction: sending.function)
        guard let body = sending.body else {
            return try TransportRequest(
                base: call.server,
                path: Self.path(sending.key),
                headers: headers,
                timeout: switched ?? BalanceLimits.callTimeout
            )
        }
        return try TransportRequest(
            method: "POST",
            base: call.server,
            path: "/v1/functions/\(sending.function)",
            headers: headers.merging(["Idempotency-Key": sending.key]) { $1 },
            json: body,
            timeout: switched ?? BalanceLimits.callTimeout
        )
    }

    static func path(_ key: String) -> String {
        let allowed = CharacterSet.urlPathAllowed.subtracting(CharacterSet(charactersIn: "/;"))
        return "/v1/calls/\(key.addingPercentEncoding(withAllowedCharacters: allowed) ?? key)"
    }
}

extension SanguineError {
    /// The problem, if the error is one.
    var asProblem: Problem? {
        if case .problem(let problem) = self { problem } else { nil }
    }
}
