import NIOCore
import SanguineAuthority
import SanguineModel

/// The bytes that a connection writes for one request, and its end.
struct HostileReply {
    /// Bytes, and the words that are billed once all bytes are written.
    struct Piece {
        var bytes: String
        var words = 0
    }

    enum Ending {
        /// The connection waits for the next request.
        case next
        /// The connection is closed.
        case close
        /// The connection is reset.
        case reset
        /// Nothing more happens.
        case silence
        /// The last piece repeats forever.
        case again
    }

    var pieces: [Piece] = []
    var ending = Ending.next
    /// The time before each piece with words, except the first.
    var interval: TimeAmount = .zero

    init(to request: HostileUpstream.Request, _ fault: HostileUpstream.Fault) {
        switch fault {
        case .silence:
            ending = .silence
            return
        case .hangsUp(let resets):
            ending = resets ? .reset : .close
            return
        case .refuses(let status, let retryAfter):
            pieces = [Self.refusal(status, retryAfter)]
            return
        case .garbage where !request.isStreamed:
            pieces = [Self.whole("<html>It works!</html>", words: 0)]
            return
        default: break
        }
        if request.isStreamed {
            stream(request, fault)
        } else {
            answer(request, fault)
        }
        switch fault {
        case .cut(let bytes):
            cut(after: bytes)
            ending = .close
        case .reset(let bytes):
            cut(after: bytes)
            ending = .reset
        case .slow(let duration):
            interval = TimeAmount(duration)
        default: break
        }
    }

    // MARK: - Whole answers

    private mutating func answer(
        _ request: HostileUpstream.Request,
        _ fault: HostileUpstream.Fault
    ) {
        let answer = request.answer
        let reason: JSONValue = answer.isCut ? "length" : "stop"
        let choice: JSONValue = [
            "index": 0, "finish_reason": reason,
            "message": answer.message,
        ]
        var members: [String: JSONValue] = [
            "object": "chat.completion", "model": "hostile", "choices": .array([choice]),
        ]
        members["usage"] = Self.usage(of: answer, fault)
        if case .errorInStream = fault { members = ["error": ["message": "It broke."]] }
        let text = Self.text(.object(members))
        let head = Self.head(["Content-Type: application/json"])
        switch fault {
        case .headOnly:
            pieces = [Piece(bytes: head)]
            ending = .silence
        case .neverEnds, .lineWithoutEnd:
            let spaces = String(repeating: " ", count: 1 << 14)
            pieces = [Piece(bytes: head), Piece(bytes: Self.chunk(spaces))]
            ending = .again
            interval = .milliseconds(1)
        default:
            pieces = [
                Piece(bytes: head), Piece(bytes: Self.chunk(text), words: answer.words.count),
            ]
            pieces.append(Piece(bytes: Self.lastChunk))
        }
    }

    // MARK: - Streams

    private mutating func stream(
        _ request: HostileUpstream.Request,
        _ fault: HostileUpstream.Fault
    ) {
        let answer = request.answer
        let head = Self.head(["Content-Type: text/event-stream"])
        pieces = [Piece(bytes: head)]
        switch fault {
        case .headOnly:
            ending = .silence
            return
        case .garbage:
            add("data: <html>It works!</html>\n\n")
            pieces.append(Piece(bytes: Self.lastChunk))
            return
        case .lineWithoutEnd:
            add("data: ")
            add(String(repeating: "x", count: 1 << 14))
            ending = .again
            interval = .milliseconds(1)
            return
        default: break
        }
        add(Self.event(["role": "assistant", "content": ""]))
        for index in answer.words.indices {
            if case .errorInStream(let words) = fault, words == index { break }
            if case .stalls(let words) = fault, words == index {
                ending = .silence
                return
            }
            add(Self.event(answer.delta(index)), words: 1)
            if case .earlyUsage(let words) = fault, words == index + 1 {
                add("data: \(Self.text(Self.usage(words, answer)))\n\n")
            }
        }
        end(answer, fault)
    }

    private mutating func end(_ answer: HostileAnswer, _ fault: HostileUpstream.Fault) {
        switch fault {
        case .neverEnds:
            add(Self.event(["content": " more"]), words: 1)
            ending = .again
            interval = .milliseconds(1)
            return
        case .errorInStream:
            add("data: {\"error\":{\"message\":\"It broke.\",\"code\":503}}\n\n")
            pieces.append(Piece(bytes: Self.lastChunk))
            return
        default: break
        }
        if fault != .noFinishReason {
            add(Self.event([:], finishReason: answer.isCut ? "length" : "stop"))
        }
        if let usage = Self.usage(of: answer, fault) {
            let chunk: JSONValue = ["choices": .array([]), "usage": usage]
            add("data: \(Self.text(chunk))\n\n")
        }
        if fault == .noDone {
            pieces.append(Piece(bytes: Self.lastChunk))
            return
        }
        add("data: [DONE]\n\n")
        if fault == .hangsAfterDone {
            ending = .silence
        } else {
            pieces.append(Piece(bytes: Self.lastChunk))
        }
    }

    private mutating func add(_ text: String, words: Int = 0) {
        pieces.append(Piece(bytes: Self.chunk(text), words: words))
    }

    /// Keeps the given number of bytes after the head.
    private mutating func cut(after bytes: Int) {
        var left = bytes
        var kept = Array(pieces.prefix(1))
        for piece in pieces.dropFirst() {
            guard piece.bytes.utf8.count > left else {
                left -= piece.bytes.utf8.count
                kept.append(piece)
                continue
            }
            // A word may be complete without the line end of its chunk.
            kept.append(
                Piece(
                    bytes: String(decoding: piece.bytes.utf8.prefix(left), as: UTF8.self),
                    words: left >= piece.bytes.utf8.count - 2 ? piece.words : 0
                )
            )
            break
        }
        pieces = kept
    }

    // MARK: - HTTP and JSON

    private static let lastChunk = "0\r\n\r\n"

    private static func head(_ fields: [String], status: String = "200 OK") -> String {
        let fields = fields + ["Transfer-Encoding: chunked"]
        return "HTTP/1.1 \(status)\r\n" + fields.map { $0 + "\r\n" }.joined() + "\r\n"
    }

    private static func chunk(_ text: String) -> String {
        "\(String(text.utf8.count, radix: 16))\r\n\(text)\r\n"
    }

    private static func whole(
        _ text: String,
        words: Int,
        status: String = "200 OK",
        fields: [String] = []
    ) -> Piece {
        let fields = fields + ["Content-Length: \(text.utf8.count)"]
        let head = "HTTP/1.1 \(status)\r\n" + fields.map { $0 + "\r\n" }.joined() + "\r\n"
        return Piece(bytes: head + text, words: words)
    }

    private static func refusal(_ status: Int, _ retryAfter: String?) -> Piece {
        whole(
            "{\"error\":{\"message\":\"No.\"}}",
            words: 0,
            status: "\(status) No",
            fields: retryAfter.map { ["Retry-After: \($0)"] } ?? []
        )
    }

    private static func event(_ delta: JSONValue, finishReason: JSONValue = .null) -> String {
        let choice: JSONValue = ["index": 0, "delta": delta, "finish_reason": finishReason]
        let chunk: JSONValue = [
            "object": "chat.completion.chunk", "model": "hostile", "choices": .array([choice]),
        ]
        return "data: \(text(chunk))\n\n"
    }

    private static func usage(
        of answer: HostileAnswer,
        _ fault: HostileUpstream.Fault
    ) -> JSONValue? {
        switch fault {
        case .noUsage, .earlyUsage: nil
        case .halfUsage: usage(answer.words.count / 2, answer)["usage"]
        case .wrongUsage(.negative): ["prompt_tokens": -5, "completion_tokens": -7]
        case .wrongUsage(.huge):
            ["prompt_tokens": .integer(.max), "completion_tokens": .integer(.max)]
        case .wrongUsage(.text): ["prompt_tokens": "many", "completion_tokens": "more"]
        case .wrongUsage(.excessive):
            ["prompt_tokens": 1_000_000_000, "completion_tokens": 1_000_000_000]
        case .wrongUsage(.nothing): ["prompt_tokens": 0, "completion_tokens": 0]
        default:
            [
                "prompt_tokens": .integer(Int64(answer.promptTokens)),
                "completion_tokens": .integer(Int64(answer.words.count)),
            ]
        }
    }

    /// A chunk that reports the given number of words.
    private static func usage(_ words: Int, _ answer: HostileAnswer) -> JSONValue {
        let usage: JSONValue = [
            "prompt_tokens": .integer(Int64(answer.promptTokens)),
            "completion_tokens": .integer(Int64(words)),
        ]
        return ["choices": .array([]), "usage": usage]
    }

    private static func text(_ value: JSONValue) -> String {
        String(decoding: value.canonical, as: UTF8.self)
    }
}
