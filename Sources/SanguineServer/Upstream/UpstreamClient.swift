public import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import SanguineAuthority
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

    /// How a request has ended, with what is left of the answer's body.
    private typealias End = (outcome: Outcome, rest: BodyRest?)

    /// What is called.
    public let configuration: UpstreamConfiguration

    private let httpClient: HTTPClient
    private let wallClock: any WallClock
    private let stopwatch: Stopwatch
    private let deadlines: Deadlines

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
        self.wallClock = wallClock
        stopwatch = Stopwatch(clock)
        deadlines = Deadlines(clock)
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
        // Before the request may leave.
        let end = deadlines.moment(after: timeout)
        // Unstructured, because the end of its time cancels it alone.
        let work = Task(executorPreference: LoopExecutor.current) { () -> Outcome in
            let ended =
                if isStreamed {
                    await self.stream(http, for: request, progress, onEvent)
                } else {
                    await self.read(http, for: request, progress, onEvent)
                }
            if case .failure = ended.outcome, progress.isTimeUp {
                return .failure(.timeout(mayHaveBeenSent: progress.isSent))
            }
            if let rest = ended.rest { await self.linger(rest) }
            return ended.outcome
        }
        let deadline = deadlines.add(at: end) {
            progress.ranOutOfTime()
            work.cancel()
        }
        defer { deadlines.leave(deadline) }
        return await withTaskCancellationHandler {
            await work.value
        } onCancel: {
            work.cancel()
        }
    }

    /// Reads the rest of a body for a while, so that its connection can be used again.
    private func linger(_ rest: BodyRest) async {
        let end = deadlines.moment(after: Self.lingerTime)
        let reading = Task(executorPreference: LoopExecutor.current) {
            await rest.read(upTo: Self.lingerBytes)
        }
        let deadline = deadlines.add(at: end) { reading.cancel() }
        await withTaskCancellationHandler {
            await reading.value
        } onCancel: {
            reading.cancel()
        }
        deadlines.leave(deadline)
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
        _ progress: AttemptProgress,
        _ onEvent: @Sendable (UpstreamEvent) async -> Void
    ) async -> End {
        do {
            // The deadline is the sleeping task's: this one would end with the answer's head.
            let response = try await httpClient.execute(http, deadline: .distantFuture)
            progress.heard()
            guard response.status == .ok else { return refusal(response) }
            let body = try await collect(response.body, for: request, progress, onEvent)
            progress.heard()
            guard let answer = await answer(body, to: request) else {
                return (.failure(unlessCancelled(.unreadable, progress)), nil)
            }
            return (.success(answer), nil)
        } catch {
            return (.failure(self.error(error, progress)), nil)
        }
    }

    /// Reads an answer piece by piece, and gives each away before it reads on.
    private func stream(
        _ http: HTTPClientRequest,
        for request: UpstreamRequest,
        _ progress: AttemptProgress,
        _ onEvent: @Sendable (UpstreamEvent) async -> Void
    ) async -> End {
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
                    return (.success(stream.answer), BodyRest(body))
                }
            }
            try Task.checkCancellation()
            if let event = try stream.end() {
                progress.gave()
                await onEvent(event)
            }
            return (.success(stream.answer), nil)
        } catch {
            return (.failure(self.error(error, progress)), nil)
        }
    }

    /// Reads the answer of an upstream that does not stream, and gives it away in one piece.
    private func whole(
        _ response: HTTPClientResponse,
        for request: UpstreamRequest,
        _ progress: AttemptProgress,
        _ onEvent: @Sendable (UpstreamEvent) async -> Void
    ) async throws -> End {
        let body = try await collect(response.body, for: request, progress, onEvent)
        progress.heard()
        guard let answer = await answer(body, to: request),
            let event = UpstreamEvent(whole: answer)
        else { throw UpstreamError.unreadable }
        progress.gave()
        await onEvent(event)
        let streamed = UpstreamAnswer(
            text: answer.text,
            usage: answer.usage,
            finishReason: answer.finishReason
        )
        return (.success(streamed), nil)
    }

    /// Reads a body, and gives away what an answer shows that is too long.
    ///
    /// - Throws: ``UpstreamError/tooLarge(limit:)``, or what the connection throws.
    private func collect(
        _ body: HTTPClientResponse.Body,
        for request: UpstreamRequest,
        _ progress: AttemptProgress,
        _ onEvent: @Sendable (UpstreamEvent) async -> Void
    ) async throws -> ByteBuffer {
        let limit = configuration.answerBytes
        var read = ByteBuffer()
        for try await part in body {
            let room = limit - read.readableBytes
            guard part.readableBytes > room else {
                read.writeImmutableBuffer(part)
                continue
            }
            read.writeBytes(part.readableBytesView.prefix(room))
            let bytes = Array(read.readableBytesView)
            let beginning = await withTaskExecutorPreference(globalConcurrentExecutor) {
                CutOffAnswer(bytes, to: request)
            }
            if let beginning {
                var event = UpstreamEvent(chunk: [], text: "")
                event.output = beginning.output
                event.isCutOff = true
                progress.gave()
                await onEvent(event)
            }
            throw UpstreamError.tooLarge(limit: limit)
        }
        return read
    }

    /// Reads an answer in one piece; a long one on a thread that no connections share.
    private func answer(_ body: ByteBuffer, to request: UpstreamRequest) async -> UpstreamAnswer? {
        let isLong = body.readableBytes > EdgeLimits.shortBodyBytes
        return await withTaskExecutorPreference(isLong ? globalConcurrentExecutor : nil) {
            UpstreamAnswer(body: Array(body.readableBytesView), to: request)
        }
    }

    private func refusal(_ response: HTTPClientResponse) -> End {
        let now = wallClock.now()
        let seconds = response.headers.first(name: "Retry-After")
            .flatMap { RetryAfter.seconds($0, now: now) }
        let error = UpstreamError.refused(
            status: Int(response.status.code),
            retryAfterSeconds: seconds.flatMap { (0...86_400).contains($0) ? $0 : nil }
        )
        return (.failure(error), BodyRest(response.body.makeAsyncIterator()))
    }

    private func error(_ error: any Error, _ progress: AttemptProgress) -> UpstreamError {
        let found: UpstreamError
        if let error = error as? UpstreamError {
            found = error
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
