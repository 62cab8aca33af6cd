import Foundation
import SanguineAuthority
import SanguineModel

/// Parses the body of a streamed chat completion into pieces and the complete answer.
///
/// ```swift
/// stream.append(bytes)
/// while let event = try stream.next() { await onEvent(event) }
/// ```
///
/// The answer is complete once a `finish_reason` was received, followed by `[DONE]` or the end of
/// the body. `[DONE]` by itself is not sufficient: proxies append it to broken streams.
///
/// Invariants:
/// 1. `text` is the concatenation of the returned pieces, and never exceeds the limit.
/// 2. No piece is returned after `[DONE]`.
struct CompletionStream: Sendable {
    /// The maximum number of received bytes per permitted byte of text.
    ///
    /// A token of a few bytes is sent in a chunk of a few hundred bytes.
    static let bytesPerTextByte = 64

    private let textBytes: Int
    private let filter: RefusalFilter
    private var parser: EventStreamParser
    /// The data of received events to process, which precede any error in the stream.
    private var waiting: [(type: String, data: Data)] = []
    private var taken = 0
    private var isTooLong = false
    private var received = 0
    private var text = ""
    private var usage: UpstreamUsage?
    private var output = OutputMeasure()
    private var finishReason: String?
    private var hasChoice = false

    /// Whether `[DONE]` was received.
    private(set) var isDone = false

    /// Creates an empty stream.
    ///
    /// - Parameters:
    ///   - textBytes: The maximum size of the text and of each chunk in bytes; the whole body may
    ///     have ``bytesPerTextByte`` times as many.
    ///   - filter: Removes confidential text from errors. Default: removes nothing.
    init(textBytes: Int, filter: RefusalFilter = RefusalFilter()) {
        self.textBytes = textBytes
        self.filter = filter
        parser = EventStreamParser(limit: textBytes)
    }

    /// The answer received so far.
    var answer: UpstreamAnswer {
        var answer = UpstreamAnswer(text: text, usage: usage, finishReason: finishReason)
        answer.output = output
        return answer
    }

    /// Adds bytes of the body.
    ///
    /// - Throws: ``UpstreamError/tooLarge(limit:)``.
    mutating func append(_ bytes: some Collection<UInt8>) throws(UpstreamError) {
        received += bytes.count
        guard received / Self.bytesPerTextByte <= textBytes else { throw tooLarge }
        guard !isTooLong else { return }
        collect { parser, receive throws(EventStreamParser.TooLong) in
            try parser.parse(bytes, receive)
        }
    }

    /// Returns the next complete piece, or `nil` if none is complete yet, or after `[DONE]`.
    ///
    /// - Throws: ``UpstreamError``: `refused` for an error in the stream, `unreadable` for data
    ///   that is not a JSON object or a completed stream without a choice, `unfinished` for a
    ///   completed stream without a finish reason, `tooLarge`.
    mutating func next() throws(UpstreamError) -> UpstreamEvent? {
        guard !isDone, let (type, data) = try nextData() else { return nil }
        return try process(data, type)
    }

    /// Returns the piece at the end of the body that is not followed by an empty line.
    ///
    /// - Throws: ``UpstreamError/failed(mayHaveBeenSent:)`` if the answer is incomplete.
    mutating func end() throws(UpstreamError) -> UpstreamEvent? {
        guard !isDone else { return nil }
        var last: UpstreamEvent?
        do throws(UpstreamError) {
            collect { parser, receive throws(EventStreamParser.TooLong) in
                try parser.end(receive)
            }
            if let (type, data) = try nextData() { last = try process(data, type) }
        } catch .unreadable {
            // A truncated chunk: the connection broke without an error.
            throw .failed(mayHaveBeenSent: true)
        }
        guard isDone || finishReason != nil else { throw .failed(mayHaveBeenSent: true) }
        return last
    }

    private mutating func process(
        _ data: [UInt8],
        _ type: String
    ) throws(UpstreamError) -> UpstreamEvent? {
        if data == Self.done {
            guard hasChoice else { throw .unreadable }
            guard finishReason != nil else { throw .unfinished }
            isDone = true
            return nil
        }
        // The size is already limited.
        let parsed = try? JSONParser.parse(data, limits: .tolerant).value
        if let error = ReportedError(parsed, type: type) { throw error.refusal(filter) }
        guard let json = parsed, case .object = json else { throw .unreadable }
        var piece = ""
        if case .array(let choices) = json["choices"],
            let choice = choices.first(where: { ($0["index"] ?? 0) == 0 })
        {
            hasChoice = true
            piece = UpstreamAnswer.text(of: choice["delta"]?["content"]) ?? ""
            finishReason = UpstreamAnswer.finishReason(of: choice) ?? finishReason
        }
        guard text.utf8.count + piece.utf8.count <= textBytes else { throw tooLarge }
        text += piece
        output.add(choicesOf: json)
        let reported = UpstreamUsage(reportsIn: json)
        if let reported { usage = usage?.merged(with: reported) ?? reported }
        var event = UpstreamEvent(chunk: data, text: piece, usage: reported)
        event.output = output
        return event
    }

    /// Collects events from the parser, except those without data.
    private mutating func collect(
        _ body: (inout EventStreamParser, (EventStreamParser.Output) -> Void)
            throws(EventStreamParser.TooLong) -> Void
    ) {
        var new: [(type: String, data: Data)] = []
        do throws(EventStreamParser.TooLong) {
            try body(&parser) { output in
                guard case .event(let type, let data, _) = output, !data.isEmpty else { return }
                new.append((type, data))
            }
        } catch {
            isTooLong = true
        }
        waiting += new
    }

    private mutating func nextData() throws(UpstreamError) -> (type: String, data: [UInt8])? {
        guard taken < waiting.count else {
            (waiting, taken) = ([], 0)
            guard !isTooLong else { throw tooLarge }
            return nil
        }
        defer { taken += 1 }
        return (waiting[taken].type, Array(waiting[taken].data))
    }

    private var tooLarge: UpstreamError { .tooLarge(limit: textBytes) }

    private static let done = Array("[DONE]".utf8)
}
