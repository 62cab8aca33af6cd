import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import SanguineAuthority
public import SanguineModel
import Synchronization

/// Calls a language model behind any server that speaks OpenAI's API.
///
/// ```swift
/// let configuration = try UpstreamConfiguration(url: "http://localhost:8081", model: "stand-in")
/// let connections = UpstreamConnections(configuration.httpClientConfiguration())
/// let upstream = UpstreamClient(configuration: configuration, connections: connections)
/// let answer = try await upstream.complete(prompt)
/// ```
///
/// A call is made once: whether to try again, or elsewhere, is for ``Upstreams`` to say. Only a
/// request that was lost on a connection kept from an earlier one is sent again, once. If the
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
    private struct End {
        var outcome: Outcome
        /// What is left of the body.
        var rest: BodyRest?
        /// What was read of a refusal.
        var refusal: [UInt8] = []

        init(_ outcome: Outcome, _ rest: BodyRest? = nil) {
            (self.outcome, self.rest) = (outcome, rest)
        }
    }

    /// What is called.
    public let configuration: UpstreamConfiguration

    private let connections: UpstreamConnections
    private let wallClock: any WallClock
    private let stopwatch: Stopwatch
    private let deadlines: Deadlines
    private let learned: LearnedParameters

    /// Creates a client.
    ///
    /// - Parameters:
    ///   - configuration: What to call, and within which limits.
    ///   - connections: The connections to it, set up with
    ///     ``UpstreamConfiguration/httpClientConfiguration(connections:)``; their owner shuts them
    ///     down.
    ///   - clock: The clock that measures the timeout. Tests pass a manual one.
    ///   - wallClock: The clock by which the date of a `Retry-After` is read.
    public init(
        configuration: UpstreamConfiguration,
        connections: UpstreamConnections,
        clock: any Clock<Duration> = ContinuousClock(),
        wallClock: any WallClock = SystemWallClock()
    ) {
        self.configuration = configuration
        self.connections = connections
        self.wallClock = wallClock
        stopwatch = Stopwatch(clock)
        deadlines = Deadlines(clock)
        learned = LearnedParameters(UpstreamParameters(configuration))
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
        // Before the request may leave.
        let end = deadlines.moment(after: timeout)
        // Unstructured, because the end of its time cancels it alone.
        let work = Task(executorPreference: LoopExecutor.current) { () -> Outcome in
            let ended = await self.exchange(request, isStreamed, progress, onEvent)
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

    /// Sends a request, and once more for each parameter of it that the upstream refuses.
    ///
    /// What is refused is learned once the upstream has taken the request without it: before, the
    /// refusal may have another reason.
    private func exchange(
        _ request: UpstreamRequest,
        _ isStreamed: Bool,
        _ progress: AttemptProgress,
        _ onEvent: @escaping @Sendable (UpstreamEvent) async -> Void
    ) async -> End {
        let model = request.model ?? configuration.model
        let known = learned[model]
        var parameters = known
        var end = await send(request, isStreamed, parameters, progress, onEvent)
        for _ in 0..<Self.parameters {
            guard request.canStream, case .failure(let error) = end.outcome,
                error.mayNameParameter,
                let other = parameters.afterRefusal(end.refusal, configuration)
            else { break }
            parameters = other
            end = await send(request, isStreamed, parameters, progress, onEvent)
        }
        if parameters != known, case .success = end.outcome, learned.learn(parameters, of: model) {
            progress.learned("\(model), \(parameters.changes(from: known))")
        }
        return end
    }

    /// How many parameters there are that an upstream may refuse.
    private static let parameters = 2

    private func send(
        _ request: UpstreamRequest,
        _ isStreamed: Bool,
        _ parameters: UpstreamParameters,
        _ progress: AttemptProgress,
        _ onEvent: @escaping @Sendable (UpstreamEvent) async -> Void
    ) async -> End {
        let body = request.body(
            model: configuration.model,
            streamed: isStreamed,
            parameters: parameters
        )
        let address = request.canStream ? configuration.endpoint : configuration.embeddings
        let http = httpRequest(address, isStreamed)
        return isStreamed
            ? await stream(http, body, for: request, progress, onEvent)
            : await read(http, body, for: request, progress, onEvent)
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

    private func httpRequest(_ address: String, _ isStreamed: Bool) -> HTTPClientRequest {
        var request = HTTPClientRequest(url: address)
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        let type = isStreamed ? Self.eventStream : "application/json"
        request.headers.add(name: "Accept", value: type)
        if let key = configuration.apiKey {
            request.headers.add(name: "Authorization", value: "Bearer \(key.reveal())")
        }
        return request
    }

    /// Reads an answer in one piece.
    private func read(
        _ http: HTTPClientRequest,
        _ sent: [UInt8],
        for request: UpstreamRequest,
        _ progress: AttemptProgress,
        _ onEvent: @Sendable (UpstreamEvent) async -> Void
    ) async -> End {
        do {
            let response = try await connections.execute(http, sent, progress)
            progress.heard()
            guard response.status == .ok else { return await refusal(response, to: request) }
            var body = response.body.makeAsyncIterator()
            let opening = try await AnswerOpening(of: &body, progress)
            guard opening.kind == .events, !opening.isEmpty, request.canStream else {
                let answer = try await whole(opening, body, for: request, progress, onEvent)
                return End(.success(answer))
            }
            let parts = Mutex(CompletionAssembly())
            let end = try await events(opening, body, for: request, progress) { event in
                parts.withLock { $0.add(event) }
            }
            guard case .success(let answer) = end.outcome else { return end }
            return End(.success(try parts.withLock { $0 }.answer(answer, to: request)), end.rest)
        } catch {
            return End(.failure(self.error(error, progress)))
        }
    }

    /// Reads an answer piece by piece, and gives each away before it reads on.
    private func stream(
        _ http: HTTPClientRequest,
        _ sent: [UInt8],
        for request: UpstreamRequest,
        _ progress: AttemptProgress,
        _ onEvent: @Sendable (UpstreamEvent) async -> Void
    ) async -> End {
        do {
            let response = try await connections.execute(http, sent, progress)
            guard response.status == .ok else {
                progress.heard()
                return await refusal(response, to: request)
            }
            var body = response.body.makeAsyncIterator()
            let opening = try await AnswerOpening(of: &body, progress)
            if opening.kind == .events {
                return try await events(opening, body, for: request, progress) { event in
                    progress.gave()
                    await onEvent(event)
                }
            }
            let answer = try await whole(opening, body, for: request, progress, onEvent)
            guard let event = UpstreamEvent(whole: answer) else { throw UpstreamError.unreadable }
            progress.gave()
            await onEvent(event)
            let streamed = UpstreamAnswer(
                text: answer.text,
                usage: answer.usage,
                finishReason: answer.finishReason
            )
            return End(.success(streamed))
        } catch {
            return End(.failure(self.error(error, progress)))
        }
    }

    /// Reads events, and gives each away before it reads on.
    private func events(
        _ opening: AnswerOpening,
        _ rest: BodyParts,
        for request: UpstreamRequest,
        _ progress: AttemptProgress,
        _ onEvent: @Sendable (UpstreamEvent) async -> Void
    ) async throws -> End {
        var stream = CompletionStream(
            textBytes: configuration.answerBytes,
            filter: RefusalFilter(configuration, request)
        )
        var body = rest
        var next: ByteBuffer? = opening.bytes
        while let part = next {
            try stream.append(part.readableBytesView)
            while let event = try stream.next() {
                progress.beganReading()
                await onEvent(event)
                progress.hasRead()
                try Task.checkCancellation()
            }
            guard !stream.isDone else { return End(.success(stream.answer), BodyRest(body)) }
            next = try await body.next()
            progress.heard()
        }
        try Task.checkCancellation()
        if let event = try stream.end() { await onEvent(event) }
        return End(.success(stream.answer))
    }

    /// Reads an answer in one piece; a long one on a thread that no connections share.
    private func whole(
        _ opening: AnswerOpening,
        _ rest: BodyParts,
        for request: UpstreamRequest,
        _ progress: AttemptProgress,
        _ onEvent: @Sendable (UpstreamEvent) async -> Void
    ) async throws -> UpstreamAnswer {
        var (bytes, body) = (opening.bytes, rest)
        while let part = try await body.next() {
            progress.heard()
            bytes.writeImmutableBuffer(part)
            guard bytes.readableBytes <= configuration.answerBytes else {
                throw await tooLarge(bytes, for: request, progress, onEvent)
            }
        }
        try Task.checkCancellation()
        var text = Array(bytes.readableBytesView)
        if text.starts(with: [0xEF, 0xBB, 0xBF]) { text.removeFirst(3) }
        let isLong = text.count > EdgeLimits.shortBodyBytes
        return try await WireBody.perform(ifLong: isLong, for: nil) { [text] in
            if let answer = UpstreamAnswer(body: text, to: request) { return answer }
            throw ReportedError(body: text)?.refusal(RefusalFilter(configuration, request))
                ?? UpstreamError.unreadable
        }
    }

    /// Gives away what the beginning of an answer shows that is too long.
    private func tooLarge(
        _ body: ByteBuffer,
        for request: UpstreamRequest,
        _ progress: AttemptProgress,
        _ onEvent: @Sendable (UpstreamEvent) async -> Void
    ) async -> UpstreamError {
        let limit = configuration.answerBytes
        let bytes = Array(body.readableBytesView.prefix(limit))
        let beginning = await LongWork.shared.perform(for: nil) {
            CutOffAnswer(bytes, to: request)
        }
        if let beginning {
            var event = UpstreamEvent(chunk: [], text: "")
            event.output = beginning.output
            event.isCutOff = true
            progress.gave()
            await onEvent(event)
        }
        return .tooLarge(limit: limit)
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
        var end = End(.failure(.refused(refusal)))
        end.refusal = body
        return end
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

/// The parts of a body that are still to come.
typealias BodyParts = HTTPClientResponse.Body.AsyncIterator

/// What is left of a body whose reader knows enough.
// The iterator is handed over from the task that has read to the one that reads on, which is the
// only one then.
private struct BodyRest: @unchecked Sendable {
    private let iterator: BodyParts

    init(_ iterator: BodyParts) { self.iterator = iterator }

    /// Reads to the end, unless that is too far away; then the connection is closed.
    ///
    /// - Returns: What was read.
    func read(upTo limit: Int) async -> [UInt8] {
        var iterator = iterator
        var bytes: [UInt8] = []
        while bytes.count <= limit, let part = try? await iterator.next() {
            bytes += part.readableBytesView
        }
        return bytes
    }
}
