/// FFmpeg is missing, and an upstream needs frames of videos.
public struct FFmpegMissing: Error, Hashable, Sendable {
    /// The program that was searched for, from the setting `video.ffmpeg`.
    public let program: String
}

extension FFmpegMissing: CustomStringConvertible {
    /// What happened, and how to fix it.
    public var description: String {
        """
        An upstream has 'video: frames', but '\(program)', with 'ffprobe' in the same folder, was \
        not found. Install FFmpeg (Debian and Homebrew: ffmpeg), name it in 'video.ffmpeg', or \
        set 'video' to 'file'.
        """
    }
}
