/// FFmpeg is missing, and an upstream needs frames of videos.
public struct FFmpegMissing: Error, Hashable, Sendable {
    /// The program that was searched for, from the setting `video.ffmpeg`.
    public let program: String
}

extension FFmpegMissing: CustomStringConvertible {
    /// What happened, and how to fix it.
    public var description: String {
        """
        '\(program)' and 'ffprobe' beside it are not there, and an upstream has 'video: frames'. \
        Install FFmpeg (Debian and Homebrew: ffmpeg), name it in 'video.ffmpeg', or let 'video' be \
        'file'.
        """
    }
}
