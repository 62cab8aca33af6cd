import Foundation
import SanguineAuthority
import SanguineModel
import Synchronization

/// Sends requests to an S3 storage: signed, within a time limit, and again if that is safe.
///
/// All requests may be sent twice: an object is written whole and named by its content. A request
/// is repeated after a lost connection, a response that is cut off, a 5xx and a request to slow
/// down, up to ``attempts`` times in all, after random and growing pauses.
struct S3Client: Sendable {
    /// Sends a signed request, and reads the response.
    typealias Send = @Sendable (S3Exchange) async throws -> S3Reply

    /// The maximum number of times that a request is sent.
    static let attempts = 4
    /// The longest pause before the second attempt; it doubles with each further one.
    static let pause = Duration.milliseconds(200)
    /// The longest pause before the second attempt after a request to slow down.
    static let slowPause = Duration.seconds(1)
    /// The longest pause that a storage may request before it counts as overloaded.
    static let longestPause = Duration.seconds(10)
    /// The bytes per second below which a transfer may fail by the time limit: 256 KiB.
    static let slowestTransfer = 1 << 18

    let location: S3Location
    private let region: String
    private let keys: S3Keys
    private let timeout: Duration
    private let clock: any WallClock
    private let deadlines: Deadlines
    private let random: @Sendable () -> Double
    private let send: Send

    /// Creates a client.
    ///
    /// - Parameters:
    ///   - location: The bucket.
    ///   - region: The region that the storage expects in signatures.
    ///   - keys: The keys that sign requests.
    ///   - timeout: The time limit of a request with its repetitions, without the transfer of large
    ///     bodies.
    ///   - clock: The clock for the times in signatures.
    ///   - delay: The clock for the time limit and pauses.
    ///   - random: Returns a number from 0 to 1, by which pauses are multiplied.
    ///   - send: Sends a signed request.
    init(
        location: S3Location,
        region: String,
        keys: S3Keys,
        timeout: Duration,
        clock: any WallClock,
        delay: any Clock<Duration>,
        random: @escaping @Sendable () -> Double = { .random(in: 0...1) },
        send: @escaping Send
    ) {
        self.location = location
        self.region = region
        self.keys = keys
        self.timeout = timeout
        self.clock = clock
        deadlines = Deadlines(delay)
        self.random = random
        self.send = send
    }

    /// Sends a request.
    ///
    /// - Parameters:
    ///   - message: The request.
    ///   - expected: Further statuses that are no refusal, such as 404. Default: none.
    ///   - validate: Throws ``S3Failure/unreadable(_:)`` for a response that is not complete.
    ///     Default: accepts all.
    /// - Returns: The response, with a status of 2xx or an expected one.
    /// - Throws: The failure of the last attempt.
    func perform(
        _ message: S3Message,
        expecting expected: Set<Int> = [],
        validate: @escaping @Sendable (S3Reply) throws(S3Failure) -> Void = { _ in }
    ) async throws(S3Failure) -> S3Reply {
        let bytes = message.body.count + message.responseBytes
        let transfer = bytes > S3Message.documentBytes ? bytes / Self.slowestTransfer : 0
        let limit = deadlines.moment(after: timeout + .seconds(transfer))
        let timer = S3Timer()
        // Unstructured, because the time limit must cancel only this task.
        let work = Task { () -> Result<S3Reply, S3Failure> in
            do throws(S3Failure) {
                return .success(try await self.repeated(message, expected, validate))
            } catch {
                return .failure(error)
            }
        }
        let ticket = deadlines.add(at: limit) {
            timer.end()
            work.cancel()
        }
        defer { deadlines.cancel(ticket) }
        let result = await withTaskCancellationHandler {
            await work.value
        } onCancel: {
            work.cancel()
        }
        do throws(S3Failure) {
            return try result.get()
        } catch {
            if error == .cancelled, timer.hasEnded { throw .timeout }
            throw error
        }
    }

    private func repeated(
        _ message: S3Message,
        _ expected: Set<Int>,
        _ validate: @Sendable (S3Reply) throws(S3Failure) -> Void
    ) async throws(S3Failure) -> S3Reply {
        var attempt = 1
        var hasNewKeys = false
        while true {
            let credentials = keys.current
            let failure: S3Failure
            do throws(S3Failure) {
                return try await once(message, credentials, expected, validate)
            } catch {
                failure = error
            }
            if Task.isCancelled { throw .cancelled }
            if case .refused(let refusal) = failure, refusal.isOfCredentials, !hasNewKeys,
                keys.reload(after: credentials)
            {
                hasNewKeys = true
                continue
            }
            guard failure.isTemporary, attempt < Self.attempts,
                let pause = pause(after: failure, attempt)
            else { throw failure }
            await deadlines.sleep(for: pause)
            if Task.isCancelled { throw .cancelled }
            attempt += 1
        }
    }

    /// Returns the time before the next attempt; `nil` if the storage wants too long a pause.
    func pause(after failure: S3Failure, _ attempt: Int) -> Duration? {
        var base = Self.pause
        if case .refused(let refusal) = failure {
            if let wanted = refusal.retryAfter {
                return wanted <= Self.longestPause ? wanted : nil
            }
            if refusal.isOverload { base = Self.slowPause }
        }
        return base * (1 << (attempt - 1)) * random()
    }

    /// Signs and sends a request.
    private func once(
        _ message: S3Message,
        _ credentials: S3Credentials,
        _ expected: Set<Int>,
        _ validate: @Sendable (S3Reply) throws(S3Failure) -> Void
    ) async throws(S3Failure) -> S3Reply {
        let reply: S3Reply
        do {
            reply = try await send(signed(message, credentials))
        } catch let failure as S3Failure {
            throw failure
        } catch {
            if Task.isCancelled { throw .cancelled }
            throw .unreachable(String("\(error)".prefix(S3Refusal.messageLength)))
        }
        if !reply.isSuccess {
            let refusal = S3Refusal(
                reply,
                to: message.action,
                key: credentials.accessKey,
                now: clock.now()
            )
            guard expected.contains(reply.status), refusal.isOfObject else {
                throw .refused(refusal)
            }
        }
        try validate(reply)
        return reply
    }

    /// Returns the request with its signature, at the current time.
    func signed(_ message: S3Message, _ credentials: S3Credentials) -> S3Exchange {
        let signature = S3Signature(credentials: credentials, region: region, moment: clock.now())
        let address = message.key.map { location.address(of: $0) } ?? location.address
        var headers = message.headers
        headers.append(("host", address.host))
        headers.append(("x-amz-content-sha256", message.contentHash))
        headers.append(("x-amz-date", signature.date))
        if let token = credentials.sessionToken {
            headers.append(("x-amz-security-token", token.reveal()))
        }
        let request = S3Signature.Request(
            method: message.method,
            path: address.path,
            query: message.query,
            headers: headers,
            contentHash: message.contentHash
        )
        headers.append(("authorization", signature.authorization(of: request)))
        let query = S3Signature.query(of: message.query)
        return S3Exchange(
            method: message.method,
            url: address.origin + address.path + (query.isEmpty ? "" : "?\(query)"),
            headers: headers,
            body: message.body,
            responseBytes: message.responseBytes
        )
    }
}

/// Records that a time limit is over.
private final class S3Timer: Sendable {
    private let state = Atomic(false)

    var hasEnded: Bool { state.load(ordering: .acquiring) }

    func end() { state.store(true, ordering: .releasing) }
}
