using Acme.Util;

namespace Acme
{
    public class App : Base
    {
        public App() { Start(); }
        void Start() { this.Stop(); Tools.Cut(); Shared(); base.Shared(); }
        void Stop() { new App(); }
    }
}
