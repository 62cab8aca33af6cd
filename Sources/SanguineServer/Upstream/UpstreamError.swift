/// The reason why an upstream gave no answer.
///
/// It contains nothing of the prompt, the key or the answer, except the limited message of a
/// refusal. If `mayHaveBeenSent` is false, no upstream has done any work.
public enum UpstreamError: Error, Hashable, Sendable {
    /// The call exceeded its time limit.
    case timeout(mayHaveBeenSent: Bool)
    /// The upstream responded with a status other than 200.
    ///
    /// An error in a body of status 200 or in a stream counts as one, with its status, or 500.
    case refused(UpstreamRefusal)
    /// The connection could not be established, or broke.
    case failed(mayHaveBeenSent: Bool)
    /// A stream ended with `[DONE]` but without a `finish_reason`: the answer may be incomplete.
    case unfinished
    /// The upstream responded with 200 but without a valid answer.
    case unreadable
    /// The answer exceeds the limit in bytes.
    case tooLarge(limit: Int)
    /// The call was cancelled.
    case cancelled(mayHaveBeenSent: Bool)
    /// No frames of a video can be extracted, and no upstream was asked; the text is for the log.
    case videoUnreadable(String)
    /// The program that extracts frames cannot be run, and no upstream was asked.
    case noFrames(String)
    /// No upstream accepts calls now, and none was asked.
    case unavailable(retryAfterSeconds: Int)
}

extension UpstreamError {
    /// Whether an upstream refused the request.
    var isRefusal: Bool { if case .refused = self { true } else { false } }

    /// Whether an upstream may have begun to work on the call, and may charge for it.
    public var mayHaveBeenSent: Bool {
        switch self {
        case .timeout(let sent), .failed(let sent), .cancelled(let sent): sent
        case .unfinished, .unreadable, .tooLarge: true
        case .refused, .unavailable, .videoUnreadable, .noFrames: false
        }
    }
}

extension UpstreamError: CustomStringConvertible {
    /// What happened, and how the operator can fix it.
    public var description: String {
        switch self {
        case .timeout:
            "The upstream did not answer in time. Try again, or raise 'upstream.timeout'."
        case .refused(let refusal) where UpstreamFailureCause(refusal) == .credentials:
            "The upstream refused the key (status \(refusal.status)). Check 'upstream.key'."
        case .refused(let refusal) where refusal.status == 404:
            """
            The upstream does not have this address or model. Check 'upstream.url' and \
            'upstream.model'.
            """
        case .refused(let refusal) where UpstreamFailureCause(refusal) == .caller:
            "The upstream refused the caller's input (status \(refusal.status))."
        case .refused(let refusal) where UpstreamFailureCause(refusal) == .settings:
            """
            The upstream refused a member that the function set (status \(refusal.status)). \
            Check the function's settings.
            """
        case .refused(let refusal):
            "The upstream responded with status \(refusal.status). Try again later."
        case .failed(let sent):
            sent
                ? "The connection to the upstream broke. Try again later."
                : "The upstream cannot be reached. Check that it runs, and check 'upstream.url'."
        case .unfinished:
            """
            The upstream ended a stream without a 'finish_reason', so the answer counts as \
            incomplete. If it never sends one, set 'streams' of its functions to false.
            """
        case .unreadable:
            "The upstream's response is not a chat completion. Check 'upstream.url'."
        case .tooLarge(let limit):
            """
            The upstream's answer is longer than \(limit) bytes. Lower the function's output \
            limit.
            """
        case .cancelled:
            "The call was cancelled before the upstream answered."
        case .videoUnreadable(let reason):
            "No frames can be extracted from the video: \(reason)."
        case .noFrames(let reason):
            "FFmpeg does not run: \(reason). Check 'video.ffmpeg' and the free disk space."
        case .unavailable(let seconds):
            """
            No upstream accepts calls now: each has failed recently or requested a pause. Try \
            again in \(seconds) s.
            """
        }
    }
}
