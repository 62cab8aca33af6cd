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

    /// Bytes behind an answer, or of a refusal, that are read at most.
    static let lingerBytes = 1 << 16

    /// How long the words of a refusal are waited for, whose status is known.
    static let refusalTime = Duration.seconds(1)

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
    ///   - silence: The longest time for which the upstream may say nothing. Default: any.
    ///   - streamed: Whether the answer comes in pieces. Embeddings never do.
    ///   - progress: What is told how far the call has come.
    ///   - onEvent: Takes each piece; nothing more is read before it returns.
    /// - Returns: The whole answer, or why there is none.
    func attempt(
        _ request: UpstreamRequest,
        within timeout: Duration,
        silence: Duration? = nil,
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
                    await self.read(http, for: request, progress)
                }
            if case .failure(let error) = ended.outcome, progress.isTimeUp, !error.isRefusal {
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
        let watch = silence.flatMap { silence -> SilenceWatch? in
            guard silence < timeout else { return nil }
            return SilenceWatch(deadlines, progress, longest: silence) {
                progress.ranOutOfTime()
                work.cancel()
            }
        }
        watch?.start()
        defer { watch?.end() }
        return await withTaskCancellationHandler {
            await work.value
        } onCancel: {
            work.cancel()
        }
    }

    /// Reads the rest of a body for a while, so that its connection can be used again.
    ///
    /// - Returns: What has come.
    @discardableResult
    private func linger(
        _ rest: BodyRest,
        for time: Duration = UpstreamClient.lingerTime
    ) async -> [UInt8] {
        let end = deadlines.moment(after: time)
        let reading = Task(executorPreference: LoopExecutor.current) {
            await rest.read(upTo: Self.lingerBytes)
        }
        let deadline = deadlines.add(at: end) { reading.cancel() }
        let bytes = await withTaskCancellationHandler {
            await reading.value
        } onCancel: {
            reading.cancel()
        }
        deadlines.leave(deadline)
        return bytes
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
    ) async -> End {
        do {
            // The deadline is the sleeping task's: this one would end with the answer's head.
            let response = try await httpClient.execute(http, deadline: .distantFuture)
            progress.heard()
            guard response.status == .ok else { return await refusal(response, to: request) }
            let body = try await response.body.collect(upTo: configuration.answerBytes)
            progress.heard()
            guard let answer = await answer(body, to: request) else {
                return (.failure(unlessCancelled(unreadable(body, request), progress)), nil)
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
                return await refusal(response, to: request)
            }
            let type = response.headers.first(name: "Content-Type")?.lowercased()
            if type?.hasPrefix("application/json") == true {
                return try await whole(response, for: request, progress, onEvent)
            }
            guard type?.hasPrefix(Self.eventStream) ?? true else { throw UpstreamError.unreadable }
            let filter = RefusalFilter(configuration, request)
            var stream = CompletionStream(textBytes: configuration.answerBytes, filter: filter)
            var body = response.body.makeAsyncIterator()
            while let part = try await body.next() {
                progress.heard()
                try stream.append(part.readableBytesView)
                while let event = try stream.next() {
                    progress.gave()
                    progress.beganReading()
                    await onEvent(event)
                    progress.hasRead()
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
        let body = try await response.body.collect(upTo: configuration.answerBytes)
        progress.heard()
        guard let answer = await answer(body, to: request),
            let event = UpstreamEvent(whole: answer)
        else { throw unreadable(body, request) }
        progress.gave()
        await onEvent(event)
        let streamed = UpstreamAnswer(
            text: answer.text,
            usage: answer.usage,
            finishReason: answer.finishReason
        )
        return (.success(streamed), nil)
    }

    /// Reads an answer in one piece; a long one on a thread that no connections share.
    private func answer(_ body: ByteBuffer, to request: UpstreamRequest) async -> UpstreamAnswer? {
        let isLong = body.readableBytes > EdgeLimits.shortBodyBytes
        return await withTaskExecutorPreference(isLong ? globalConcurrentExecutor : nil) {
            UpstreamAnswer(body: Array(body.readableBytesView), to: request)
        }
    }

    private func refusal(_ response: HTTPClientResponse, to request: UpstreamRequest) async -> End {
        let pause = UpstreamRefusal.pause(
            milliseconds: response.headers.first(name: "retry-after-ms"),
            seconds: response.headers.first(name: "Retry-After"),
            now: wallClock.now()
        )
        let body = await linger(BodyRest(response.body.makeAsyncIterator()), for: Self.refusalTime)
        let refusal = UpstreamRefusal(
            status: Int(response.status.code),
            retryAfter: pause,
            body: body,
            RefusalFilter(configuration, request)
        )
        return (.failure(.refused(refusal)), nil)
    }

    /// The error of a body of status 200 that is no answer: its own, if it says one.
    private func unreadable(_ body: ByteBuffer, _ request: UpstreamRequest) -> UpstreamError {
        guard body.readableBytes <= Self.lingerBytes,
            let json = try? JSONParser.parse(Array(body.readableBytesView), limits: .stored).value,
            let error = json["error"], error != .null
        else { return .unreadable }
        let filter = RefusalFilter(configuration, request)
        return .refused(UpstreamRefusal(status: nil, json, filter))
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
    ///
    /// - Returns: What has come.
    func read(upTo limit: Int) async -> [UInt8] {
        var iterator = iterator
        var bytes: [UInt8] = []
        while bytes.count <= limit, let part = try? await iterator.next() {
            bytes += part.readableBytesView
        }
        return bytes
    }
}
