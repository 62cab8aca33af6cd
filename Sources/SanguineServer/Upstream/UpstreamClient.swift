public import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
public import SanguineModel

/// Calls a language model behind any server that speaks OpenAI's API.
///
/// ```swift
/// let configuration = try UpstreamConfiguration(url: "http://localhost:8081", model: "stand-in")
/// let http = HTTPClient(configuration: configuration.httpClientConfiguration())
/// let upstream = UpstreamClient(configuration: configuration, httpClient: http)
/// let answer = try await upstream.complete(prompt)
/// ```
///
/// A call is made once: whether to try again, or elsewhere, is for ``Upstreams`` to say. If the
/// caller's task is cancelled, or time is up, the connection is closed and never used again, so
/// that its late answer reaches nobody.
public struct UpstreamClient: Sendable {
    /// How long the end of a body is waited for once the answer is known, so that the connection
    /// can be used again.
    static let lingerTime = Duration.milliseconds(100)

    /// Bytes behind an answer, or of a refusal, that are read for the connection's sake at most.
    static let lingerBytes = 1 << 16

    typealias Outcome = Result<UpstreamAnswer, UpstreamError>

    private enum Event: Sendable {
        case ended(Outcome, rest: BodyRest?)
        case timeIsUp
        case givenUp
        case lingered
    }

    /// What is called.
    public let configuration: UpstreamConfiguration

    private let httpClient: HTTPClient
    private let clock: any Clock<Duration>
    private let wallClock: any WallClock
    private let stopwatch: Stopwatch

    /// Creates a client.
    ///
    /// - Parameters:
    ///   - configuration: What to call, and within which limits.
    ///   - httpClient: A client set up with
    ///     ``UpstreamConfiguration/httpClientConfiguration(connections:)``; its owner shuts it
    ///     down.
    ///   - clock: The clock that measures the timeout. Tests pass a manual one.
    ///   - wallClock: The clock by which the date of a `Retry-After` is read.
    public init(
        configuration: UpstreamConfiguration,
        httpClient: HTTPClient,
        clock: any Clock<Duration> = ContinuousClock(),
        wallClock: any WallClock = SystemWallClock()
    ) {
        self.configuration = configuration
        self.httpClient = httpClient
        self.clock = clock
        self.wallClock = wallClock
        stopwatch = Stopwatch(clock)
    }

    /// Asks the model, and returns its whole answer.
    ///
    /// - Throws: ``UpstreamError``, which says whether the upstream may have done the work.
    public func complete(_ prompt: UpstreamPrompt) async throws(UpstreamError) -> UpstreamAnswer {
        let outcome = await attempt(
            .prompt(prompt),
            within: configuration.timeout,
            streamed: false,
            progress: progress()
        )
        return try outcome.get()
    }

    /// The progress of an attempt that begins now.
    func progress() -> AttemptProgress { AttemptProgress(now: stopwatch.elapsed) }

    /// Makes one call.
    ///
    /// - Parameters:
    ///   - request: What is asked.
    ///   - timeout: The longest time to the end of the answer.
    ///   - streamed: Whether the answer comes in pieces. Embeddings never do.
    ///   - progress: What is told how far the call has come.
    ///   - onEvent: Takes each piece; nothing more is read before it returns.
    /// - Returns: The whole answer, or why there is none.
    func attempt(
        _ request: UpstreamRequest,
        within timeout: Duration,
        streamed: Bool,
        progress: AttemptProgress,
        onEvent: @escaping @Sendable (UpstreamEvent) async -> Void = { _ in }
    ) async -> Outcome {
        let isStreamed = streamed && request.canStream
        let body = request.body(model: configuration.model, streamed: isStreamed)
        let address = request.canStream ? configuration.endpoint : configuration.embeddings
        let http = httpRequest(address, body, isStreamed, progress)
        return await withTaskGroup(of: Event.self) { group in
            group.addTask {
                guard isStreamed else { return await self.read(http, for: request, progress) }
                return await self.stream(http, for: request, progress, onEvent)
            }
            group.addTask { [clock] in
                do {
                    try await clock.sleep(for: timeout)
                    return .timeIsUp
                } catch {
                    return .givenUp
                }
            }
            return await self.firstEnd(of: &group, progress)
        }
    }

    /// What comes first, the answer or the end of the time; then both tasks have ended.
    private func firstEnd(
        of group: inout TaskGroup<Event>,
        _ progress: AttemptProgress
    ) async -> Outcome {
        var isTimeUp = false
        var answered: Outcome?
        for await event in group {
            switch event {
            case .ended(.failure, _) where isTimeUp:
                return .failure(.timeout(mayHaveBeenSent: progress.isSent))
            case .ended(let outcome, nil):
                group.cancelAll()
                return outcome
            case .ended(let outcome, let rest?):
                answered = outcome
                group.addTask {
                    await rest.read(upTo: Self.lingerBytes)
                    return .lingered
                }
                group.addTask { [clock] in
                    try? await clock.sleep(for: Self.lingerTime)
                    return .lingered
                }
            case .timeIsUp:
                isTimeUp = true
                group.cancelAll()
            case .lingered:
                guard let answered else { continue }
                group.cancelAll()
                return answered
            case .givenUp:
                // The request hears of it as well, and may just have been answered.
                continue
            }
        }
        guard let answered else { preconditionFailure("The request's own task always ends.") }
        return answered
    }

    private func httpRequest(
        _ address: String,
        _ body: [UInt8],
        _ isStreamed: Bool,
        _ progress: AttemptProgress
    ) -> HTTPClientRequest {
        var request = HTTPClientRequest(url: address)
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        let type = isStreamed ? Self.eventStream : "application/json"
        request.headers.add(name: "Accept", value: type)
        if let key = configuration.apiKey {
            request.headers.add(name: "Authorization", value: "Bearer \(key.reveal())")
        }
        // The body is read when the head goes out: that is how the progress knows.
        request.body = .bytes(SentBody(bytes: body, progress: progress))
        return request
    }

    /// Reads an answer in one piece.
    private func read(
        _ http: HTTPClientRequest,
        for request: UpstreamRequest,
        _ progress: AttemptProgress
    ) async -> Event {
        do {
            // The deadline is the sleeping task's: this one would end with the answer's head.
            let response = try await httpClient.execute(http, deadline: .distantFuture)
            progress.heard()
            guard response.status == .ok else { return refusal(response) }
            let body = try await response.body.collect(upTo: configuration.answerBytes)
            progress.heard()
            let bytes = Array(body.readableBytesView)
            guard let answer = UpstreamAnswer(body: bytes, to: request) else {
                return .ended(.failure(unlessCancelled(.unreadable, progress)), rest: nil)
            }
            return .ended(.success(answer), rest: nil)
        } catch {
            return .ended(.failure(self.error(error, progress)), rest: nil)
        }
    }

    /// Reads an answer piece by piece, and gives each away before it reads on.
    private func stream(
        _ http: HTTPClientRequest,
        for request: UpstreamRequest,
        _ progress: AttemptProgress,
        _ onEvent: @Sendable (UpstreamEvent) async -> Void
    ) async -> Event {
        do {
            let response = try await httpClient.execute(http, deadline: .distantFuture)
            guard response.status == .ok else {
                progress.heard()
                return refusal(response)
            }
            let type = response.headers.first(name: "Content-Type")?.lowercased()
            if type?.hasPrefix("application/json") == true {
                return try await whole(response, for: request, progress, onEvent)
            }
            guard type?.hasPrefix(Self.eventStream) ?? true else { throw UpstreamError.unreadable }
            var stream = CompletionStream(textBytes: configuration.answerBytes)
            var body = response.body.makeAsyncIterator()
            while let part = try await body.next() {
                progress.heard()
                try stream.append(part.readableBytesView)
                while let event = try stream.next() {
                    progress.gave()
                    await onEvent(event)
                    try Task.checkCancellation()
                }
                guard !stream.isDone else {
                    return .ended(.success(stream.answer), rest: BodyRest(body))
                }
            }
            try Task.checkCancellation()
            if let event = try stream.end() {
                progress.gave()
                await onEvent(event)
            }
            return .ended(.success(stream.answer), rest: nil)
        } catch {
            return .ended(.failure(self.error(error, progress)), rest: nil)
        }
    }

    /// Reads the answer of an upstream that does not stream, and gives it away in one piece.
    private func whole(
        _ response: HTTPClientResponse,
        for request: UpstreamRequest,
        _ progress: AttemptProgress,
        _ onEvent: @Sendable (UpstreamEvent) async -> Void
    ) async throws -> Event {
        let body = try await response.body.collect(upTo: configuration.answerBytes)
        progress.heard()
        let bytes = Array(body.readableBytesView)
        guard let answer = UpstreamAnswer(body: bytes, to: request),
            let event = UpstreamEvent(whole: answer)
        else { throw UpstreamError.unreadable }
        progress.gave()
        await onEvent(event)
        let streamed = UpstreamAnswer(
            text: answer.text,
            usage: answer.usage,
            finishReason: answer.finishReason
        )
        return .ended(.success(streamed), rest: nil)
    }

    private func refusal(_ response: HTTPClientResponse) -> Event {
        let now = wallClock.now()
        let seconds = response.headers.first(name: "Retry-After")
            .flatMap { RetryAfter.seconds($0, now: now) }
        let error = UpstreamError.refused(
            status: Int(response.status.code),
            retryAfterSeconds: seconds.flatMap { (0...86_400).contains($0) ? $0 : nil }
        )
        return .ended(.failure(error), rest: BodyRest(response.body.makeAsyncIterator()))
    }

    private func error(_ error: any Error, _ progress: AttemptProgress) -> UpstreamError {
        let found: UpstreamError
        if let error = error as? UpstreamError {
            found = error
        } else if error is NIOTooManyBytesError {
            found = .tooLarge(limit: configuration.answerBytes)
        } else if let error = error as? HTTPClientError, error == .connectTimeout {
            progress.failedToConnect()
            found = .timeout(mayHaveBeenSent: false)
        } else {
            found = .failed(mayHaveBeenSent: progress.isSent)
        }
        return unlessCancelled(found, progress)
    }

    /// What a cancelled call stumbles over is its cancellation: a body seems to end then.
    private func unlessCancelled(
        _ error: UpstreamError,
        _ progress: AttemptProgress
    ) -> UpstreamError {
        Task.isCancelled ? .cancelled(mayHaveBeenSent: progress.isSent) : error
    }

    private static let eventStream = "text/event-stream"
}

/// A request's body, which is read when it goes out.
///
/// No stream: HTTPClient reads a collection in one go with the head. Of a stream it may hear the
/// end only after the answer, and then it closes the connection.
private struct SentBody: RandomAccessCollection, Sendable {
    let bytes: [UInt8]
    let progress: AttemptProgress

    var startIndex: Int { 0 }
    var endIndex: Int { bytes.count }

    subscript(index: Int) -> UInt8 {
        progress.sent()
        return bytes[index]
    }

    func withContiguousStorageIfAvailable<Value>(
        _ body: (UnsafeBufferPointer<UInt8>) throws -> Value
    ) rethrows -> Value? {
        progress.sent()
        return try bytes.withContiguousStorageIfAvailable(body)
    }
}

/// What is left of a body whose reader knows enough.
// The iterator is handed over from the task that has read to the one that reads on, which is the
// only one then.
private struct BodyRest: @unchecked Sendable {
    private let iterator: HTTPClientResponse.Body.AsyncIterator

    init(_ iterator: HTTPClientResponse.Body.AsyncIterator) { self.iterator = iterator }

    /// Reads to the end, unless that is too far away; then the connection is closed.
    func read(upTo limit: Int) async {
        var iterator = iterator
        var count = 0
        while count <= limit, let part = try? await iterator.next() { count += part.readableBytes }
    }
}
