extension ServerSettings {
    /// The upstreams in the order in which functions that name none ask them.
    var upstreamOrder: [String] {
        (upstream.url == nil ? [] : [Upstream.name]) + upstream.fallbacks
    }

    /// The names of all upstreams, with the model of each.
    var upstreamModels: [(upstream: String, model: String)] {
        (upstream.url == nil ? [] : [(Upstream.name, upstream.model)])
            + upstreams.map { ($0.name, $0.model) }
    }

    /// What makes pictures of videos; `nil` if no upstream asks for them.
    ///
    /// - Throws: ``FFmpegMissing``.
    func frameSampler() throws(FFmpegMissing) -> FrameSampler? {
        let frames = UpstreamConfiguration.Video.frames
        guard upstream.video == frames.rawValue || upstreams.contains(where: { $0.video == frames })
        else { return nil }
        #if canImport(Subprocess)
        if let ffmpeg = FFmpeg(video.ffmpeg) {
            return FrameSampler(count: video.frames, sample: ffmpeg.pictures)
        }
        #endif
        throw FFmpegMissing(program: video.ffmpeg)
    }

    /// All upstreams that there are, that of `upstream.url` first.
    ///
    /// Those beside it have its times and limits.
    ///
    /// - Throws: ``UpstreamConfigurationError`` for values that ``validate()`` refuses.
    func upstreamConfigurations() throws(UpstreamConfigurationError) -> [(
        name: String, configuration: UpstreamConfiguration
    )] {
        var all: [(name: String, configuration: UpstreamConfiguration)] = []
        if let configuration = try upstream.configuration() {
            all.append((Upstream.name, configuration))
        }
        for other in upstreams {
            let configuration = try UpstreamConfiguration(
                url: other.url,
                apiKey: other.key,
                model: other.model,
                connectTimeout: upstream.connectTimeout,
                timeout: upstream.timeout,
                answerBytes: upstream.answerBytes,
                video: other.video,
                outputLimit: other.outputLimit,
                streamOptions: other.streamOptions
            )
            all.append((other.name, configuration))
        }
        return all
    }
}
