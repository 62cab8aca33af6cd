import SanguineModel
import Synchronization

extension UpstreamConfiguration {
    /// The member of requests that limits the length of answers, in tokens.
    public enum OutputLimit: String, CaseIterable, Hashable, Sendable {
        /// As the caller names it, otherwise `max_tokens`; the other one once an upstream has
        /// refused it.
        case auto
        /// `max_tokens`, which most servers take.
        case maxTokens = "max_tokens"
        /// `max_completion_tokens`, which OpenAI's reasoning models ask for.
        case maxCompletionTokens = "max_completion_tokens"
        /// No limit is sent. What an answer costs the caller is still bounded; the operator pays
        /// for the rest.
        case none
    }

    /// Whether an upstream takes `stream_options`, without which most report no usage of streams.
    public enum StreamOptions: String, CaseIterable, Hashable, Sendable {
        /// Until it has refused them.
        case auto
        /// It does.
        case always = "true"
        /// It does not.
        case never = "false"
    }
}

/// The members of requests on which upstreams differ, as one model of one upstream takes them.
struct UpstreamParameters: Hashable, Sendable {
    /// The name of the limit.
    var outputLimit: UpstreamConfiguration.OutputLimit = .auto
    /// Whether streams are asked to report usage.
    var hasStreamOptions = true

    init() {}

    /// Those of the settings.
    init(_ configuration: UpstreamConfiguration) {
        outputLimit = configuration.outputLimit
        hasStreamOptions = configuration.streamOptions != .never
    }

    /// The parameters that differ from others, in words for the log.
    func changes(from other: UpstreamParameters) -> String {
        var changes: [String] = []
        if outputLimit != other.outputLimit {
            changes.append("outputLimit: \(outputLimit.rawValue)")
        }
        if hasStreamOptions != other.hasStreamOptions {
            changes.append("streamOptions: \(hasStreamOptions)")
        }
        return changes.joined(separator: ", ")
    }

    /// What to send instead, once an upstream has refused a request because of a parameter that the
    /// settings leave open.
    ///
    /// OpenAI names the parameter in `error.param` and in the message, FastAPI's servers (vLLM,
    /// Mistral) in the path of `detail`, others only in the message.
    ///
    /// - Returns: `nil` if the refusal has another reason.
    func afterRefusal(
        _ body: some Sequence<UInt8>,
        _ configuration: UpstreamConfiguration
    ) -> UpstreamParameters? {
        let words = String(decoding: Array(body), as: UTF8.self).lowercased()
        guard Self.refusals.contains(where: words.contains) else { return nil }
        var other = self
        if configuration.streamOptions == .auto, words.hasWord("stream_options") {
            other.hasStreamOptions = false
        }
        if configuration.outputLimit == .auto {
            let old = words.place(ofWord: Self.maxTokens)
            let new = words.place(ofWord: Self.maxCompletionTokens)
            // "Unsupported parameter: 'max_tokens' … Use 'max_completion_tokens' instead."
            switch (old, new) {
            case (nil, nil): break
            case (let old?, let new) where new.map({ old < $0 }) ?? true:
                other.outputLimit = .maxCompletionTokens
            default: other.outputLimit = .maxTokens
            }
        }
        return other == self ? nil : other
    }

    private static let maxTokens = UpstreamConfiguration.OutputLimit.maxTokens.rawValue
    private static let maxCompletionTokens =
        UpstreamConfiguration.OutputLimit.maxCompletionTokens.rawValue

    /// The words with which parameters are refused, and not their values.
    private static let refusals = [
        "unsupported", "not supported", "unrecognized", "unknown", "unexpected", "not permitted",
        "not allowed", "extra_forbidden",
    ]
}

/// What upstreams were found to take, by the names of models.
///
/// It is forgotten at a restart. The names are those of the settings; more than
/// ``mostModels`` are not kept.
///
/// Mutable state: `known`, by its mutex, because calls end on any thread.
final class LearnedParameters: Sendable {
    /// The models of one upstream of which something is kept at most.
    static let mostModels = 64

    private let first: UpstreamParameters
    private let known = Mutex<[String: UpstreamParameters]>([:])

    /// Creates what is known at first.
    init(_ first: UpstreamParameters) { self.first = first }

    /// What a model takes.
    subscript(model: String) -> UpstreamParameters { known.withLock { $0[model] } ?? first }

    /// Notes what a model has taken.
    ///
    /// - Returns: Whether that is new, and kept.
    func learn(_ parameters: UpstreamParameters, of model: String) -> Bool {
        known.withLock { known in
            guard known[model] != parameters else { return false }
            guard known[model] != nil || known.count < Self.mostModels else { return false }
            known[model] = parameters
            return true
        }
    }
}

extension String {
    fileprivate func hasWord(_ word: String) -> Bool { place(ofWord: word) != nil }

    /// Where a name stands that is no part of a longer one.
    fileprivate func place(ofWord word: String) -> Int? {
        let (text, word) = (Array(utf8), Array(word.utf8))
        guard text.count >= word.count else { return nil }
        func isName(_ index: Int) -> Bool {
            guard text.indices.contains(index) else { return false }
            let byte = text[index]
            return byte == UInt8(ascii: "_") || (0x30...0x39).contains(byte)
                || (0x61...0x7A).contains(byte)
        }
        return (0...(text.count - word.count)).first { start in
            text[start] == word[0] && text[start..<(start + word.count)].elementsEqual(word)
                && !isName(start - 1) && !isName(start + word.count)
        }
    }
}
