/// FFmpeg is not there, and an upstream is to be shown pictures of videos.
public struct FFmpegMissing: Error, Hashable, Sendable {
    /// What was looked for, by the setting `video.ffmpeg`.
    public let program: String
}

extension FFmpegMissing: CustomStringConvertible {
    /// What to do.
    public var description: String {
        """
        '\(program)' and 'ffprobe' beside it are not there, and an upstream has 'video: frames'. \
        Install FFmpeg (Debian and Homebrew: ffmpeg), name it in 'video.ffmpeg', or let 'video' be \
        'file'.
        """
    }
}
