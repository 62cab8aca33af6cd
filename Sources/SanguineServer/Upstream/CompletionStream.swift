import Foundation
import SanguineAuthority
import SanguineModel

/// A streamed chat completion, from the bytes of its body to pieces and the whole.
///
/// ```swift
/// stream.append(bytes)
/// while let event = try stream.next() { await onEvent(event) }
/// ```
///
/// The answer is whole once a `finish_reason` has come, and `[DONE]` or the end of the body after
/// it. `[DONE]` alone is not enough: proxies append it to streams that broke.
///
/// Invariants:
/// 1. `text` is what the pieces that were given add up to, and no longer than the limit.
/// 2. Nothing is given after the answer is whole by `[DONE]`.
struct CompletionStream: Sendable {
    /// How many bytes of the wire may come for each byte of text that is allowed.
    ///
    /// A token of a few bytes comes in a chunk of a few hundred.
    static let bytesPerTextByte = 64

    private let textBytes: Int
    private let filter: RefusalFilter
    private var parser: EventStreamParser
    /// The data of events that have come and were not taken; what stops them comes after them.
    private var waiting: [(type: String, data: Data)] = []
    private var taken = 0
    private var isTooLong = false
    private var received = 0
    private var text = ""
    private var usage: UpstreamUsage?
    private var output = OutputMeasure()
    private var finishReason: String?
    private var hasChoice = false

    /// Whether `[DONE]` has come.
    private(set) var isDone = false

    /// Creates a stream of which nothing has come.
    ///
    /// - Parameters:
    ///   - textBytes: Bytes of the text, and of each chunk, at most; the whole may take
    ///     ``bytesPerTextByte`` times as much on the wire.
    ///   - filter: What must not be told of an error. Default: nothing.
    init(textBytes: Int, filter: RefusalFilter = RefusalFilter()) {
        self.textBytes = textBytes
        self.filter = filter
        parser = EventStreamParser(limit: textBytes)
    }

    /// The answer as far as it has come.
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
            try parser.take(bytes, receive)
        }
    }

    /// Takes the next piece that has come whole, or returns `nil` until more has come, and from
    /// `[DONE]` on.
    ///
    /// - Throws: ``UpstreamError``: `refused` for an error among the chunks, `unreadable` for what
    ///   is no JSON object or for a stream that is done without any choice, `unfinished` for one
    ///   that is done without a finish reason, `tooLarge`.
    mutating func next() throws(UpstreamError) -> UpstreamEvent? {
        guard !isDone, let (type, data) = try nextData() else { return nil }
        return try take(data, type)
    }

    /// Takes the piece that stood at the end of the body without an empty line after it.
    ///
    /// - Throws: ``UpstreamError/failed(mayHaveBeenSent:)`` if the answer is not whole.
    mutating func end() throws(UpstreamError) -> UpstreamEvent? {
        guard !isDone else { return nil }
        var last: UpstreamEvent?
        do throws(UpstreamError) {
            collect { parser, receive throws(EventStreamParser.TooLong) in
                try parser.end(receive)
            }
            if let (type, data) = try nextData() { last = try take(data, type) }
        } catch .unreadable {
            // A chunk that is cut off: the connection broke, and nobody said so.
            throw .failed(mayHaveBeenSent: true)
        }
        guard isDone || finishReason != nil else { throw .failed(mayHaveBeenSent: true) }
        return last
    }

    private mutating func take(
        _ data: [UInt8],
        _ type: String
    ) throws(UpstreamError) -> UpstreamEvent? {
        if data == Self.done {
            guard hasChoice else { throw .unreadable }
            guard finishReason != nil else { throw .unfinished }
            isDone = true
            return nil
        }
        // The bytes are bounded already.
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

    /// Lets the parser hand on events, of which those without data are none.
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
