/// Why an upstream gave no answer.
///
/// Holds nothing of the prompt, the key or the answer. Where `mayHaveBeenSent` is false, no
/// upstream has done any work.
public enum UpstreamError: Error, Hashable, Sendable {
    /// It took longer than the time that the call had.
    case timeout(mayHaveBeenSent: Bool)
    /// It answered with a status other than 200, and perhaps with seconds to wait.
    ///
    /// An error in the middle of a stream is one, too, with the status that the error names, or
    /// 500.
    case refused(status: Int, retryAfterSeconds: Int?)
    /// The connection could not be made, or broke.
    case failed(mayHaveBeenSent: Bool)
    /// It ended a stream with `[DONE]` and without a `finish_reason`: the answer may be cut.
    case unfinished
    /// It answered with 200, but with something that is no answer of its kind.
    case unreadable
    /// Its answer is longer than the limit, in bytes.
    case tooLarge(limit: Int)
    /// The caller gave up.
    case cancelled(mayHaveBeenSent: Bool)
    /// No pictures can be made of a video, and no upstream was asked; the text is for the log.
    case videoUnreadable(String)
    /// The program that makes pictures of videos does not run, and no upstream was asked.
    case noFrames(String)
    /// No upstream takes calls now, and none was asked.
    case unavailable(retryAfterSeconds: Int)
}

extension UpstreamError {
    /// Whether an upstream may have begun to work on the call, and may send a bill for it.
    public var mayHaveBeenSent: Bool {
        switch self {
        case .timeout(let sent), .failed(let sent), .cancelled(let sent): sent
        case .unfinished, .unreadable, .tooLarge: true
        case .refused, .unavailable, .videoUnreadable, .noFrames: false
        }
    }
}

extension UpstreamError: CustomStringConvertible {
    /// What happened, and what the operator can do about it.
    public var description: String {
        switch self {
        case .timeout:
            "The upstream did not answer in time. Try again, or raise 'upstream.timeout'."
        case .refused(let status, _) where status == 401 || status == 403:
            "The upstream refused the key (status \(status)). Check 'upstream.key'."
        case .refused(let status, _) where status == 404:
            """
            The upstream knows no such address or model. Check 'upstream.url' and \
            'upstream.model'.
            """
        case .refused(let status, _):
            "The upstream refused with status \(status). Try again later."
        case .failed(let sent):
            sent
                ? "The connection to the upstream broke. Try again later."
                : "The upstream cannot be reached. Check that it runs, and check 'upstream.url'."
        case .unfinished:
            """
            The upstream ended a stream without a 'finish_reason', so the answer counts as cut \
            off. If it never sends one, set 'streams' of its functions to false.
            """
        case .unreadable:
            "The upstream answered, but not with a chat completion. Check 'upstream.url'."
        case .tooLarge(let limit):
            """
            The upstream's answer is longer than \(limit) bytes. Lower the function's output \
            limit.
            """
        case .cancelled:
            "The call was given up before the upstream answered."
        case .videoUnreadable(let reason):
            "No pictures can be made of the video: \(reason)."
        case .noFrames(let reason):
            "FFmpeg does not run. Check 'video.ffmpeg', and the free space: \(reason)."
        case .unavailable(let seconds):
            """
            No upstream takes calls: each has failed lately, or asked for a pause. Try again in \
            \(seconds) s.
            """
        }
    }
}
