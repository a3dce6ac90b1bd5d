// @license magnet:?xt=urn:btih:d3d9a9a6595521f9666a5e94cc830dab83b65699&dn=expat.txt Expat
!function(n){
function check(e){
var old=e.target;
if(old.tagName=='SCRIPT'&&!window.stile&&n<5)setTimeout(function(){
var s=document.createElement('script');
s.src=old.src.replace(/(&r=.)?$/,'&r='+n);
document.head.appendChild(s)
},1e3<<n++)
}
document.addEventListener('error',check,true);
document.addEventListener('load',check,true)
}(0)
// @license-end
