import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import SanguineAuthority
public import SanguineModel
import Synchronization

/// Calls a language model on any server that implements OpenAI's API.
///
/// ```swift
/// let configuration = try UpstreamConfiguration(url: "http://localhost:8081", model: "stand-in")
/// let connections = UpstreamConnections(configuration.httpClientConfiguration())
/// let upstream = UpstreamClient(configuration: configuration, connections: connections)
/// let answer = try await upstream.complete(prompt)
/// ```
///
/// A call is made once: ``Upstreams`` decides whether to retry it or to call another upstream. Only
/// a request that is lost on a reused connection is sent again, once. If the caller's task is
/// cancelled, or the time limit is reached, the connection is closed and not reused, so that a late
/// answer is never read.
public struct UpstreamClient: Sendable {
    /// The time to wait for the end of a body after a complete answer, to reuse the connection.
    static let lingerTime = Duration.milliseconds(100)

    /// The maximum number of bytes to read after an answer, or of a refusal.
    static let lingerBytes = 1 << 16

    /// The time to wait for the body of a refusal once its status is known.
    static let refusalTime = Duration.seconds(1)

    typealias Outcome = Result<UpstreamAnswer, UpstreamError>

    /// The end of a request, with the unread rest of the answer's body.
    private struct End {
        var outcome: Outcome
        /// The unread rest of the body.
        var rest: BodyRest?
        /// The bytes that were read of a refusal.
        var refusal: [UInt8] = []

        init(_ outcome: Outcome, _ rest: BodyRest? = nil) {
            (self.outcome, self.rest) = (outcome, rest)
        }
    }

    /// The upstream and the limits of calls.
    public let configuration: UpstreamConfiguration

    private let connections: UpstreamConnections
    private let wallClock: any WallClock
    private let stopwatch: Stopwatch
    private let deadlines: Deadlines
    private let learned: LearnedParameters

    /// Creates a client.
    ///
    /// - Parameters:
    ///   - configuration: The upstream and the limits of calls.
    ///   - connections: The connections to it, configured with
    ///     ``UpstreamConfiguration/httpClientConfiguration(connections:)``; their owner shuts them
    ///     down.
    ///   - clock: The clock for the time limit. Tests pass a manual one.
    ///   - wallClock: The clock for dates in `Retry-After`.
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

    /// Sends the prompt to the model and returns the complete answer.
    ///
    /// - Throws: ``UpstreamError``, which states whether the upstream may have done the work.
    public func complete(_ prompt: UpstreamPrompt) async throws(UpstreamError) -> UpstreamAnswer {
        let outcome = await attempt(
            .prompt(prompt),
            within: configuration.timeout,
            streamed: false,
            progress: progress()
        )
        return try outcome.get()
    }

    /// Creates the progress of an attempt that starts now.
    func progress(for account: Identifier? = nil) -> AttemptProgress {
        AttemptProgress(for: account, now: stopwatch.elapsed)
    }

    /// Makes one call.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - timeout: The time limit for the complete answer.
    ///   - silence: The longest time for which the upstream may be silent. Default: no limit.
    ///   - streamed: Whether to stream the answer. Embeddings are never streamed.
    ///   - progress: Records the progress of the call.
    ///   - onEvent: Receives each piece; reading continues after it returns.
    /// - Returns: The complete answer, or the error.
    func attempt(
        _ request: UpstreamRequest,
        within timeout: Duration,
        silence: Duration? = nil,
        streamed: Bool,
        progress: AttemptProgress,
        onEvent: @escaping @Sendable (UpstreamEvent) async -> Void = { _ in }
    ) async -> Outcome {
        let isStreamed = streamed && request.canStream
        // Before the request can be sent.
        let end = deadlines.moment(after: timeout)
        // Unstructured, because the time limit must cancel only this task.
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
        defer { deadlines.cancel(deadline) }
        let watch = silence.flatMap { silence -> SilenceTimeout? in
            guard silence < timeout else { return nil }
            return SilenceTimeout(deadlines, progress, longest: silence) {
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

    /// Sends a request, and repeats it for each parameter that the upstream refuses.
    ///
    /// A refused parameter is stored only after the upstream has accepted the request without it,
    /// because the refusal may have had another reason.
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

    /// The number of parameters that an upstream may refuse.
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

    /// Reads the rest of a body for a limited time, so that its connection can be reused.
    ///
    /// - Returns: The bytes that were read.
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
        deadlines.cancel(deadline)
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

    /// Reads an answer that is not streamed.
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

    /// Reads an answer piece by piece, and passes each piece on before reading the next.
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

    /// Reads events, and passes each on before reading the next.
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

    /// Reads an answer that is not streamed; long ones are parsed off the connections' threads.
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
        return try await WireBody.perform(ifLong: isLong, for: progress.account) { [text] in
            if let answer = UpstreamAnswer(body: text, to: request) { return answer }
            throw ReportedError(body: text)?.refusal(RefusalFilter(configuration, request))
                ?? UpstreamError.unreadable
        }
    }

    /// Passes on the output in the beginning of an answer that is too long.
    private func tooLarge(
        _ body: ByteBuffer,
        for request: UpstreamRequest,
        _ progress: AttemptProgress,
        _ onEvent: @Sendable (UpstreamEvent) async -> Void
    ) async -> UpstreamError {
        let limit = configuration.answerBytes
        let bytes = Array(body.readableBytesView.prefix(limit))
        let beginning = await LongWork.shared.perform(for: .init(progress.account)) {
            TruncatedAnswer(bytes, to: request)
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
            found = .timeout(mayHaveBeenSent: progress.isSent)
        } else {
            found = .failed(mayHaveBeenSent: progress.isSent)
        }
        return unlessCancelled(found, progress)
    }

    /// Replaces the error of a cancelled call, because its body seems to end early.
    private func unlessCancelled(
        _ error: UpstreamError,
        _ progress: AttemptProgress
    ) -> UpstreamError {
        Task.isCancelled ? .cancelled(mayHaveBeenSent: progress.isSent) : error
    }

    private static let eventStream = "text/event-stream"
}

/// The remaining parts of a body.
typealias BodyParts = HTTPClientResponse.Body.AsyncIterator

/// The rest of a body whose reader needs no more of it.
// The reading task hands over the iterator, and the task that reads the rest is its only user.
private struct BodyRest: @unchecked Sendable {
    private let iterator: BodyParts

    init(_ iterator: BodyParts) { self.iterator = iterator }

    /// Reads to the end, or up to the limit and then closes the connection.
    ///
    /// - Returns: The bytes that were read.
    func read(upTo limit: Int) async -> [UInt8] {
        var iterator = iterator
        var bytes: [UInt8] = []
        while bytes.count <= limit, let part = try? await iterator.next() {
            bytes += part.readableBytesView
        }
        return bytes
    }
}
